"""Documents that cite memories: registered, acknowledged and removed by the person to whom they belong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import identity
from foundation.operations.errors import Invalid, LimitReached, NotFound
from foundation.people.caller import Caller, require_user
from memories.models import Citation, CitingDocument, MemoryRecord, Outdated
from memories.models.validity import EXPIRED
from memories.use.citations import changes, queries
from memories.use.citations.addresses import cited_ids
from memories.use.citations.operations import MAX_CITATIONS, MAX_DOCUMENTS, ChangeCiting, Cite, RemoveCiting


@dataclass(frozen=True)
class Registered:
    """The result of registering a document: ids of memories by what became of their citations.

    `outdated` are those of `added` and `kept` that no longer stand as they were cited. `not_found` are ids that do not
    exist or that the caller may not read.
    """

    document: CitingDocument
    added: Sequence[UUID]
    kept: Sequence[UUID]
    removed: Sequence[UUID]
    outdated: Sequence[UUID]
    not_found: Sequence[UUID]


def cite(caller: Caller, operation: Cite) -> Registered:
    """Register what a document cites. What the caller registered before for the same address is replaced.

    A citation that stays keeps its state. Raises Invalid if there are no addresses in the text or too many, NotFound if
    the caller can read none of the memories, and LimitReached above MAX_DOCUMENTS.
    """
    ids = list(dict.fromkeys([*operation.memory_ids, *cited_ids(operation.text or "")]))
    if not ids:
        raise Invalid(
            gettext("has no address of a memory"),
            field="text",
            allowed=gettext("a text with commonplace://memory/ID or the addresses of memories' pages"),
        )
    if len(ids) > MAX_CITATIONS:
        raise Invalid(
            gettext("has addresses of %(count)s memories") % {"count": len(ids)},
            field="text",
            allowed=gettext("at most %(high)s") % {"high": MAX_CITATIONS},
        )
    return _register(caller, operation, ids, is_whole=True)


def add_citations(caller: Caller, address: str, record_ids: Sequence[UUID]) -> Registered:
    """Register that a document cites these memories, too. Raises errors like `cite`."""
    return _register(caller, Cite(address=address, memory_ids=list(record_ids)), list(record_ids), is_whole=False)


def _register(caller: Caller, operation: Cite, ids: Sequence[UUID], *, is_whole: bool) -> Registered:
    require_user(caller)
    with transaction.atomic():
        records = _lock_readable(caller, ids)
        if not records:
            raise NotFound(gettext("none of the memories exists, or you may not read them"), field="memory_ids")
        document = _document(caller, operation, is_whole=is_whole)
        existing = set(Citation.objects.filter(document=document).values_list("record_id", flat=True))
        added = [pk for pk in records if pk not in existing]
        removed = sorted(existing - set(records)) if is_whole else []
        if len(existing) + len(added) - len(removed) > MAX_CITATIONS:
            raise LimitReached(gettext("a document cites at most %(limit)s memories") % {"limit": MAX_CITATIONS})
        Citation.objects.filter(document=document, record__in=removed).delete()
        Citation.objects.bulk_create(_new_citation(document, records[pk]) for pk in added)
        if is_whole:
            changes.report_resolved([document.pk])
        outdated = changes.open_citations().filter(document=document).values_list("record_id", flat=True)
        return Registered(
            document,
            added=added,
            kept=[pk for pk in records if pk in existing],
            removed=removed,
            outdated=sorted(set(outdated) & set(records)),
            not_found=[pk for pk in ids if pk not in records],
        )


def change(caller: Caller, operation: ChangeCiting) -> CitingDocument:
    """Rename or share a document, or acknowledge that what it cites has changed until a time.

    The citation of a corrected memory moves on to the correction that was in force then, because the document says that
    now. Changes after that time stay open, because the caller has not seen them.
    """
    with transaction.atomic():
        document = locked_document(caller, operation.document_id)
        for name, value in operation.explicit_values("title", "is_shared").items():
            if value is not None:
                setattr(document, name, value)
        if until := operation.acknowledged_until:
            _acknowledge(caller, document, until)
        document.save(update_fields=["title", "is_shared", "erased"])
        changes.report_resolved([document.pk])
    return document


def remove(caller: Caller, operation: RemoveCiting) -> CitingDocument:
    """Remove a document of the caller's with its citations."""
    with transaction.atomic():
        document = locked_document(caller, operation.document_id)
        pk = document.pk
        document.delete()
        changes.report_resolved([pk])
    return document


def locked_document(caller: Caller, document_id: UUID) -> CitingDocument:
    found = queries.own_documents(caller).select_for_update().filter(pk=document_id).first()
    if found is None:
        raise NotFound(gettext("you have no such document"), field="document_id")
    return found


# -- registering -------------------------------------------------------------------------------------------


def _lock_readable(caller: Caller, ids: Sequence[UUID]) -> dict[UUID, MemoryRecord]:
    """Return the readable ones of these memories, in this order, locked so that no change of them is missed."""
    rows = MemoryRecord.objects.visible_to(caller).filter(pk__in=ids)
    locked = {row.pk: row for row in rows.select_for_update(no_key=True).order_by("pk").defer("search")}
    return {pk: locked[pk] for pk in ids if pk in locked}


def _document(caller: Caller, operation: Cite, *, is_whole: bool) -> CitingDocument:
    """Return the caller's document with this address, locked, with the new title. Create it if there is none."""
    own = queries.own_documents(caller)
    document = own.select_for_update().filter(address=operation.address).first()
    if document is None:
        if own.count() >= MAX_DOCUMENTS:
            raise LimitReached(
                gettext(
                    "you have registered %(limit)s documents, the most there may be: report without cited_in; this "
                    "document is not watched"
                )
                % {"limit": MAX_DOCUMENTS}
            )
        # Of two calls at the same time, one creates it and the other one finds it.
        document, _ = own.select_for_update().get_or_create(
            address=operation.address, created_by=caller.email, defaults={"title": operation.title}
        )
    document.title = operation.title or document.title
    if operation.is_shared is not None:
        document.is_shared = operation.is_shared
    document.registered_at = timezone.now()
    if is_whole:  # the text no longer cites what was erased
        document.erased = 0
    document.save(update_fields=["title", "is_shared", "registered_at", "erased"])
    return document


def _new_citation(document: CitingDocument, record: MemoryRecord) -> Citation:
    citation = Citation(document=document, record=record, content_key=record.content_key)
    if reason := _reason_of_new(record):
        changes.set_reason(citation, reason)
    return citation


def _reason_of_new(record: MemoryRecord) -> Outdated:
    return changes.reason_of(record.status, is_same_text=True, is_over=record.validity == EXPIRED)


# -- acknowledging -----------------------------------------------------------------------------------------


def _acknowledge(caller: Caller, document: CitingDocument, until: datetime) -> None:
    if document.erased_at is None or document.erased_at <= until:
        document.erased = 0
    rows = changes.open_citations().filter(document=document, outdated_at__lte=until)
    with identity.service("citations"):  # the caller may no longer read some of the memories
        citations = list(changes.locked(rows))
        cited = set(Citation.objects.filter(document=document).values_list("record_id", flat=True))
    corrected = [row.record_id for row in citations if row.reason == Outdated.SUPERSEDED]
    corrections = queries.corrections(caller, corrected, until=until)
    for citation in citations:
        correction = corrections.get(citation.record_id)
        if correction is not None and correction.pk in cited:
            citation.delete()
            continue
        if correction is not None:
            cited.add(correction.pk)
            citation.record = correction
            citation.content_key = correction.content_key
            citation.other_reason = ""
            changes.set_reason(citation, _reason_of_new(correction))
        else:
            _accept(citation)
        citation.save()


def _accept(citation: Any) -> None:
    """Let a citation be about the text that the memory has now."""
    citation.content_key = citation.key
    reason = changes.current_reason(citation)
    changes.set_reason(citation, reason)
    citation.acknowledged_at = timezone.now() if reason else None
