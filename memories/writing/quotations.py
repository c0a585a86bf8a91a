"""Origins of texts that other rows take from memories. Erasing a memory follows them (see erasure.py)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from django.utils.translation import gettext

from foundation.operations.errors import NotFound
from foundation.people.caller import Caller
from memories.models import Batch, MemoryRecord, Quotation
from memories.writing.text_places import BATCH_CHOICES, BATCH_NOTES, MEMORIES

# Minimum number of characters of a text that counts as quoted. A shorter text may occur elsewhere by chance.
QUOTED_FROM = 10


def save_quotations(record_ids: Iterable[UUID], place: str, row: object, *, whole: bool = False) -> None:
    """Store that a row took its text from these memories. With `whole`, the row goes if one of them is erased."""
    key = _key(row)
    Quotation.objects.bulk_create(
        [Quotation(record_id=pk, place=place, row=key, is_whole=whole) for pk in record_ids], ignore_conflicts=True
    )


def copy_quotations(place: str, row: object, record: MemoryRecord) -> None:
    """Store that a memory has the text of a row, and with it what that row took from other memories."""
    quoted = Quotation.objects.filter(place=place, row=_key(row)).values_list("record_id", flat=True)
    save_quotations(list(quoted), MEMORIES, record.pk, whole=True)


def _key(row: object) -> str:
    return row.hex if isinstance(row, UUID) else str(row)


def save_named_quotations(caller: Caller, record_ids: Sequence[UUID], place: str, rows: Iterable[UUID]) -> None:
    """Store that rows derive from memories that their author names. Raises NotFound if the author can't read one."""
    if not record_ids:
        return
    readable = MemoryRecord.objects.visible_to(caller).filter(pk__in=record_ids)
    missing = sorted(set(record_ids) - set(readable.values_list("pk", flat=True)))
    if missing:
        raise NotFound(
            gettext("no such memory: %(memory)s") % {"memory": missing[0].hex},
            field="memory_ids",
            allowed=gettext("ids of memories you may read"),
        )
    for row in rows:
        save_quotations(record_ids, place, row, whole=True)


def save_batch_quotations(batch: Batch) -> None:
    """Store which memories of a batch are quoted by its note and its choice."""
    if not quotes_anything(batch.note) and not quotes_anything(batch.choice):
        return
    texts = MemoryRecord.objects.filter(pk__in=batch.unit_ids).values_list("pk", "content")
    quotable = [(pk, text) for pk, text in texts if quotes_anything(text)]
    save_quotations([pk for pk, text in quotable if text in batch.note], BATCH_NOTES, batch.pk)
    save_quotations([pk for pk, text in quotable if text in batch.choice], BATCH_CHOICES, batch.pk, whole=True)


def quotes_anything(text: str) -> bool:
    return len(text) >= QUOTED_FROM
