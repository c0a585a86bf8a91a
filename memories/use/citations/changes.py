"""Changes of cited memories: what they mean for the citations, and whom they concern.

Every function runs inside the transaction of the change. It costs one query if nobody cites the memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from foundation.database import identity
from foundation.people.caller import Caller, system_caller
from memories import extensions
from memories.models import Citation, CitingDocument, MemoryRecord, Outdated, Status
from memories.models.validity import EXPIRED, VALIDITY_COLUMNS, state_at

BY_STATUS: Mapping[str, Outdated] = {
    Status.SUPERSEDED: Outdated.SUPERSEDED, Status.STALE: Outdated.STALE, Status.ARCHIVED: Outdated.ARCHIVED,
}  # fmt: skip


def reason_of(status: str, *, is_same_text: bool, is_over: bool, other: str = "") -> Outdated:
    """Return why a memory with this status no longer stands as it was cited, or NONE.

    `is_over` tells whether it is no longer true.
    """
    if reason := BY_STATUS.get(status):
        return reason
    if not is_same_text:
        return Outdated.EDITED
    return Outdated.INVALID if is_over else Outdated(other)


def note_change(caller: Caller, record: MemoryRecord, before: Mapping[str, Any]) -> None:
    """Update the citations of a memory that has been changed and saved. `before` has its earlier values."""
    is_reworded = record.content != before["content"]
    if is_reworded or any(getattr(record, name) != before[name] for name in ("status", *VALIDITY_COLUMNS)):
        note_changes([record.pk], by=caller.email, is_reworded=is_reworded)


@identity.service("citations")
def note_ends() -> None:
    """Mark the citations of memories as outdated whose validity has ended by the passing of time."""
    citations = Citation.objects.filter(reason__in=("", Outdated.ROLLED_BACK), record__valid_until__lte=timezone.now())
    with transaction.atomic():
        _update(locked(citations), by=system_caller().email)


@identity.service("citations")
def note_changes(record_ids: Sequence[UUID], *, by: str, is_reworded: bool = False) -> None:
    """Compare the citations of these memories with the memories, and tell the extensions whom a change concerns."""
    _update(locked(Citation.objects.filter(record__in=record_ids)), by, is_reworded=is_reworded)


@identity.service("citations")
def note_reason(record_ids: Collection[UUID], reason: Outdated, *, by: str) -> None:
    """Mark the citations of these memories as outdated for a reason that neither status nor text shows."""
    _replace_other(record_ids, Outdated.NONE, reason, by)


@identity.service("citations")
def clear(record_ids: Collection[UUID], reason: Outdated, *, by: str) -> None:
    """Take back `note_reason`, because the memories were applied again, or are valid again."""
    _replace_other(record_ids, reason, Outdated.NONE, by)


@identity.service("citations")
def note_erased(caller: Caller, record: MemoryRecord) -> Mapping[str, int]:
    """Remove the citations of a memory that is about to be deleted. Documents keep how many they have lost so."""
    rows = list(Citation.objects.filter(record=record).select_related("document"))
    if not rows:
        return {}
    Citation.objects.filter(pk__in=[row.pk for row in rows]).delete()
    documents = {row.document_id: row.document.created_by for row in rows}
    CitingDocument.objects.filter(pk__in=documents).update(erased=F("erased") + 1, erased_at=timezone.now())
    _tell(documents, by=caller.email)
    return Counter({"citations": len(rows)})


def locked(rows: QuerySet[Citation]) -> QuerySet[Citation]:
    columns = {name: F(f"record__{name}") for name in ("status", "valid_from", "valid_until", "condition_ended_at")}
    rows = rows.select_related("document").annotate(key=F("record__content_key"), **columns)
    return rows.select_for_update(of=("self",)).order_by("pk")


def current_reason(citation: Any) -> Outdated:
    """Return what `reason_of` returns for a citation that `locked` has loaded."""
    state = state_at(timezone.now(), citation.valid_from, citation.valid_until, citation.condition_ended_at)
    is_same_text = citation.key == citation.content_key
    return reason_of(citation.status, is_same_text=is_same_text, is_over=state == EXPIRED, other=citation.other_reason)


def set_reason(citation: Citation, reason: Outdated) -> None:
    citation.reason = reason
    citation.acknowledged_at = None
    citation.outdated_at = timezone.now() if reason else None


def _replace_other(record_ids: Collection[UUID], old: Outdated, new: Outdated, by: str) -> None:
    citations = list(locked(Citation.objects.filter(record__in=record_ids, other_reason=old)))
    Citation.objects.filter(pk__in=[citation.pk for citation in citations]).update(other_reason=new)
    for citation in citations:
        citation.other_reason = new
    _update(citations, by)


def _update(citations: Iterable[Citation], by: str, *, is_reworded: bool = False) -> None:
    """Save the reasons of citations that `locked` has loaded, and tell whom it concerns."""
    changed: dict[Outdated, list[Citation]] = {}
    for citation in citations:
        reason = current_reason(citation)
        if reason != citation.reason or (reason == Outdated.EDITED and is_reworded):
            changed.setdefault(reason, []).append(citation)
    for reason, rows in changed.items():  # one statement each, because a memory may be cited in many documents
        values = {"reason": reason, "outdated_at": timezone.now() if reason else None, "acknowledged_at": None}
        Citation.objects.filter(pk__in=[row.pk for row in rows]).update(**values)
    report_resolved(row.document_id for row in changed.pop(Outdated.NONE, ()))
    _tell({row.document_id: row.document.created_by for rows in changed.values() for row in rows}, by=by)


def report_resolved(document_ids: Iterable[UUID]) -> None:
    """Tell extensions which of these documents cite nothing any more that has changed."""
    ids = set(document_ids)
    if not ids:
        return
    still_open = set(open_citations().filter(document__in=ids).values_list("document", flat=True))
    still_open |= set(CitingDocument.objects.filter(pk__in=ids, erased__gt=0).values_list("pk", flat=True))
    if resolved := sorted(ids - still_open):
        extensions.citing_documents_resolved(resolved)


def open_citations() -> QuerySet[Citation]:
    return Citation.objects.exclude(reason=Outdated.NONE).filter(acknowledged_at=None)


def _tell(documents: Mapping[UUID, str], *, by: str) -> None:
    if documents:
        extensions.citing_documents_outdated(documents, by)
