"""Reads of documents that cite memories: the caller's own ones, and those that cite a memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Case, Count, Exists, F, OuterRef, Q, QuerySet, When, Window
from django.utils.translation import gettext

from foundation.database import identity
from foundation.operations.errors import NotFound
from foundation.people.caller import Caller
from memories.models import Citation, CitingDocument, MemoryRecord, MemoryRevision, Outdated, Visibility
from memories.models.fields import ContentKey

MAX_STEPS = 50  # corrections of a memory that are followed
MAX_SHOWN = 20  # documents that a memory's page names


# For queries of a memory: whether `citing` would find anything
HAS_CITATIONS = {"has_citations": Exists(Citation.objects.filter(record=OuterRef("pk")))}


@dataclass(frozen=True)
class Cited:
    """A citation as its author may see it. If they may no longer read the memory, there are no texts and no reason.

    `text` is the text that was cited. `new_text` is what the memory says now or, if it was corrected, the text of
    `replacement`. It is empty if nothing has changed or the author may not read it.
    """

    record_id: UUID
    citation: Citation
    record: MemoryRecord | None
    text: str = ""
    new_text: str = ""
    replacement: MemoryRecord | None = None

    @property
    def reason(self) -> Outdated | None:
        """Return why the memory no longer stands as cited, or None if the author may not know."""
        return Outdated(self.citation.reason) if self.record else None


@dataclass(frozen=True)
class Citing:
    """The documents that cite a memory. `count` is None for people who may not decide about the memory."""

    count: int | None
    documents: Sequence[CitingDocument] = ()  # those of the caller, and those that others share


def own_documents(caller: Caller) -> QuerySet[CitingDocument]:
    """Return the documents that the caller registered, also for admins."""
    return CitingDocument.objects.filter(created_by=caller.email).exclude(created_by="")


def documents(caller: Caller, *, has_changes: bool | None = None) -> QuerySet[CitingDocument]:
    """Return the caller's documents with `cited`, the number of memories, and `changed`, that of unnoted changes.

    `has_changes` restricts them to those with such changes, or to those without.
    """
    is_open = ~Q(citations__reason=Outdated.NONE) & Q(citations__acknowledged_at=None)
    rows = own_documents(caller).annotate(
        cited=Count("citations"), changed=Count("citations", filter=is_open) + F("erased")
    )
    if has_changes is None:
        return rows
    return rows.filter(changed__gt=0) if has_changes else rows.filter(changed=0)


def document(caller: Caller, document_id: UUID) -> CitingDocument:
    """Raises NotFound if the caller has registered no such document."""
    found = documents(caller).filter(pk=document_id).first()
    if found is None:
        raise NotFound(gettext("you have no such document"), field="document_id")
    return found


def cited_by(caller: Caller, of: CitingDocument) -> list[Cited]:
    """Return what a document of the caller's cites, open changes first."""
    citations = list(Citation.objects.filter(document=of))
    visible = MemoryRecord.objects.visible_to(caller).defer("search")
    records = {row.pk: row for row in visible.filter(pk__in=[row.record_id for row in citations])}
    replacements = corrections(caller, [pk for pk, record in records.items() if record.superseded_by])
    texts = _cited_texts(caller, citations, records)
    rows = []
    for citation in sorted(citations, key=lambda row: (not row.is_open, row.pk)):
        record = records.get(citation.record_id)
        if record is None:
            rows.append(Cited(citation.record_id, citation, None))
            continue
        text = texts.get(citation.pk, "" if citation.content_key != record.content_key else record.content)
        replacement = replacements.get(record.pk) if citation.reason == Outdated.SUPERSEDED else None
        if replacement is not None:
            new_text = replacement.content
        else:
            new_text = record.content if citation.reason == Outdated.EDITED else ""
        rows.append(Cited(record.pk, citation, record, text, new_text, replacement))
    return rows


def last_change(caller: Caller, of: CitingDocument, rows: Sequence[Cited]) -> datetime | None:
    """Return the time of the latest change that these rows show, up to which their reader may acknowledge.

    A correction that a row shows may be later than the change that made the citation outdated.
    """
    times = [row.citation.outdated_at for row in rows if row.citation.is_open]
    if shown := [row.replacement.pk for row in rows if row.citation.is_open and row.replacement]:
        times += (
            MemoryRecord.objects.visible_to(caller)
            .filter(superseded_by__in=shown)
            .values_list("superseded_at", flat=True)
        )
    times += [of.erased_at] if of.erased else []
    return max(filter(None, times), default=None)


def corrections(
    caller: Caller, record_ids: Sequence[UUID], *, until: datetime | None = None
) -> dict[UUID, MemoryRecord]:
    """Return the last correction of each of these memories that the caller may read, or that was made until a time."""
    found: dict[UUID, MemoryRecord] = {}
    at = {pk: pk for pk in record_ids}
    visible = MemoryRecord.objects.visible_to(caller).defer("search")
    for _ in range(MAX_STEPS):
        rows = visible.filter(pk__in=set(at.values()), superseded_by__isnull=False)
        if until is not None:
            rows = rows.filter(superseded_at__lte=until)
        following = {pk: by for pk, by in rows.values_list("pk", "superseded_by") if by}
        if not following:
            break
        records = {row.pk: row for row in visible.filter(pk__in=set(following.values()))}
        at = {first: following[pk] for first, pk in at.items() if following.get(pk) in records}
        found |= {first: records[pk] for first, pk in at.items()}
    return found


def citing(caller: Caller, record: MemoryRecord) -> Citing:
    """Return the documents that cite a memory which the caller may read.

    The memory's owner, curators of its persona and admins learn how many there are. A document is named to others only
    if its author shares it.
    """
    if not record.has_citations:
        return Citing(None)
    is_curator = caller.can_review_for(record.persona) and record.visibility != Visibility.PRIVATE
    is_named = Q(created_by=caller.email) | Q(is_shared=True)
    with identity.service("citations"):
        rows = CitingDocument.objects.filter(citations__record=record)
        # The count rides in the same query, whose first rows are those that may be named.
        found = rows.annotate(total=Window(Count("pk")), named=Case(When(is_named, then=0), default=1))
        first = list(found.order_by("named", "-registered_at", "pk")[:MAX_SHOWN])
    sees_count = caller.can_edit_for(record.created_by) or is_curator
    count = first[0].total if first else 0
    return Citing(count if sees_count else None, [row for row in first if row.named == 0])


def _cited_texts(caller: Caller, citations: Sequence[Citation], records: Mapping[UUID, MemoryRecord]) -> dict[int, str]:
    """Return the cited texts that the memories no longer have, by citation, as far as the caller could read them."""
    reworded = {
        (row.record_id, row.content_key): row.pk
        for row in citations
        if (record := records.get(row.record_id)) and record.content_key != row.content_key
    }
    if not reworded:
        return {}
    revisions = MemoryRevision.objects.visible_to(caller).filter(record__in={pk for pk, _ in reworded})
    keyed = revisions.annotate(key=ContentKey("content")).filter(key__in={key for _, key in reworded})
    rows = keyed.order_by("valid_to").values_list("record_id", "key", "content")
    return {reworded[pk, key]: text for pk, key, text in rows if (pk, key) in reworded}
