"""How a memory is changed: locked for its owner, its earlier state kept as a revision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from memories import extensions
from memories.contract.errors import Forbidden, NotFound
from memories.contract.fields import Id, Reason
from memories.contract.operations import validate
from memories.database import prepared_statements
from memories.identity.caller import Caller
from memories.models import MemoryRecord, MemoryRevision, Passage, Status, Tier, Visibility
from memories.retrieval.passages import Stamped, keep, stamp_of

# What a revision keeps beside text, status and visibility.
DETAILS = (
    "summary", "language", "dimension", "category", "confidence", "persona", "created_by", "tags", "entity_urns",
    "related_columns", "metadata", "stale_reason", "stale_at", "last_verified_at", "superseded_by", "superseded_at",
    "purge_after",
)  # fmt: skip
SPEAKS = {"content", "entity_urns", "related_columns"}  # what a memory says, and of what
GROUNDING = {"restore", "verify"}  # changes by somebody who has looked at it
READERS = {"visibility", "persona", "created_by"}
WIDTH: dict[str, int] = {Visibility.PRIVATE: 0, Visibility.PERSONA: 1, Visibility.EVERYONE: 2}


def can_review(caller: Caller, record: MemoryRecord) -> bool:
    """Whether the caller decides what becomes of a memory that went stale: its owner, an admin, or a curator of its
    persona unless it is private."""
    if caller.can_edit_for(record.created_by):
        return True
    shared = record.visibility != Visibility.PRIVATE
    return record.status == Status.STALE and shared and caller.can_review_for(record.persona)


def locked(caller: Caller, record_id: UUID | str, *, deciding: bool = False) -> MemoryRecord:
    """The record, locked for change, if the caller sees it and may change it; with `deciding`, what curators decide."""
    pk = validate(Id, record_id, "id")
    record = MemoryRecord.objects.visible_to(caller).select_for_update().filter(pk=pk).first()
    if record is None:
        raise NotFound("no such memory", field="id")
    if not (can_review(caller, record) if deciding else caller.can_edit_for(record.created_by)):
        raise Forbidden("belongs to somebody else: only its owner or an admin can change it", field="id")
    return record


@contextmanager
def revised(
    caller: Caller, record: MemoryRecord, change: str, reason: str, moment: datetime | None = None
) -> Iterator[None]:
    """Saves what the block changes on the locked record, and keeps the state before as a revision.

    Nothing changed, nothing written. A new text drops the old text's vector; what it speaks of is grounded anew, and
    where fewer people may read it than before, copies follow.
    """
    reason = validate(Reason, reason, "reason")
    columns = [f for f in record._meta.concrete_fields if not f.generated]
    before = {f.attname: getattr(record, f.attname) for f in columns}
    yield
    changed = [f for f in columns if getattr(record, f.attname) != before[f.attname]]
    if not changed:
        return
    if record.content != before["content"]:
        record.embedding_model, record.embedding_text_hash = "", None
        Passage.objects.filter(record=record).delete()
        changed += [f for f in columns if f.name.startswith("embedding")]
    now = moment or timezone.now()
    last = MemoryRevision.objects.filter(record=record).order_by("-valid_to").values_list("valid_to", flat=True).first()
    MemoryRevision.objects.create(
        record=record,
        valid_from=last or before["created_at"],
        valid_to=now,
        content=before["content"],
        status=before["status"],
        visibility=before["visibility"],
        details={f.name: _plain(before[f.attname]) for f in changed if f.name in DETAILS},
        change=change,
        changed_by=caller.email,
        reason=reason,
    )
    record.updated_at = now
    names = {f.name for f in changed}
    record.save(update_fields=names | {"updated_at"})
    if names & SPEAKS or change in GROUNDING:
        _notify_saved(record)
    if "status" in names and record.status == Status.STALE:
        for extension in extensions.registered():
            extension.record_stale(record, caller)
    if names & READERS and not _is_only_wider(names, before, record):
        for extension in extensions.registered():
            extension.access_narrowed([record.pk])


def save_new(record: MemoryRecord, encoded: Stamped | None = None) -> MemoryRecord:
    """Saves a new record, with its passages where they are at hand. Every way to write one is through here, so that its
    entities are looked at as they are."""
    for name, value in (stamp_of(record.spoken, encoded.model) if encoded else {}).items():
        setattr(record, name, value)
    prepared_statements.insert([record])
    if encoded:
        keep({record.pk: encoded.passages}, [record.pk] if record.tier == Tier.SHORT_TERM else [])
    _notify_saved(record, created=True)
    return record


def save_many(news: Sequence[tuple[MemoryRecord, Stamped | None]]) -> None:
    """As `save_new`, in few statements."""
    for record, encoded in news:
        for name, value in (stamp_of(record.spoken, encoded.model) if encoded else {}).items():
            setattr(record, name, value)
    prepared_statements.insert([record for record, _ in news])
    turns = {record.pk for record, _ in news if record.tier == Tier.SHORT_TERM}
    keep({record.pk: encoded.passages for record, encoded in news if encoded}, turns)
    for record, _ in news:
        _notify_saved(record, created=True)


def _notify_saved(record: MemoryRecord, *, created: bool = False) -> None:
    for extension in extensions.registered():
        extension.record_saved(record, created=created)


def _is_only_wider(names: set[str], before: dict[str, Any], record: MemoryRecord) -> bool:
    return names & READERS == {"visibility"} and WIDTH[record.visibility] > WIDTH[before["visibility"]]


def _plain(value: Any) -> Any:
    """As JSON holds it."""
    if isinstance(value, datetime):
        return value.isoformat()
    return value.hex if isinstance(value, UUID) else value
