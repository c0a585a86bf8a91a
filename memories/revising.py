"""How a memory is changed: locked for its owner, its earlier state kept as a revision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from uuid import UUID

from django.utils import timezone

from memories import validation
from memories.access import Caller
from memories.errors import Forbidden, NotFound
from memories.models import MemoryRecord, MemoryRevision

# What a revision keeps beside text, status and visibility.
DETAILS = (
    "summary", "dimension", "category", "confidence", "persona", "created_by", "tags", "entity_urns",
    "related_columns", "metadata", "stale_reason",
)  # fmt: skip


def locked(caller: Caller, record_id: UUID | str) -> MemoryRecord:
    """The record, locked for change, if the caller sees it and may change it."""
    pk = validation.clean_id(record_id)
    record = MemoryRecord.objects.visible_to(caller).select_for_update().filter(pk=pk).first()
    if record is None:
        raise NotFound("no such memory", field="id")
    if not caller.acts_for(record.created_by):
        raise Forbidden("belongs to somebody else: only its owner or an admin changes it", field="id")
    return record


@contextmanager
def revised(
    caller: Caller, record: MemoryRecord, change: str, reason: str, moment: datetime | None = None
) -> Iterator[None]:
    """Saves what the block changes on the locked record, and keeps the state before as a revision.

    Nothing changed, nothing written. A new text drops the old text's vector.
    """
    reason = validation.clean_reason(reason)
    columns = [f for f in record._meta.concrete_fields if not f.generated]
    before = {f.attname: getattr(record, f.attname) for f in columns}
    yield
    changed = [f for f in columns if getattr(record, f.attname) != before[f.attname]]
    if not changed:
        return
    if record.content != before["content"]:
        record.embedding, record.embedding_model, record.embedding_text_hash = None, "", None
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
        details={f.name: before[f.name] for f in changed if f.name in DETAILS},
        change=change,
        changed_by=caller.email,
        reason=reason,
    )
    record.updated_at = now
    record.save(update_fields={f.name for f in changed} | {"updated_at"})
