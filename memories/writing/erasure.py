"""Permanent erasure of a memory, including its revisions, vectors and all copies of its texts."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q

from memories import extensions
from memories.contract.errors import Invalid
from memories.identity.caller import Caller
from memories.models import Batch, Feedback, IndexJob, MemoryRecord, MemoryRevision, Tombstone
from memories.operations import Erase
from memories.writing.correction_chains import locked_with_predecessor, relink_neighbors

QUOTED_FROM = 10  # characters; a shorter text may occur elsewhere by chance, so it is not searched for in other rows


def erase(operation: Erase, *, caller: Caller) -> Tombstone:
    """Erase a memory and every copy and quotation of its texts. Only a tombstone remains.

    The memory's predecessor and correction are linked to each other. Raises Invalid without `confirm`, and Conflict if
    an extension refuses, for example because the memory is applied to the catalog.
    """
    if not operation.confirm:
        raise Invalid("is not set: erasing can't be undone", field="confirm", allowed="true")
    with transaction.atomic():
        record, old = locked_with_predecessor(caller, operation.record_id)
        for extension in extensions.registered():
            extension.check_erase(record)
        texts = texts_of(record)
        IndexJob.objects.filter(source_kind="memory", source_id=record.pk).delete()
        tombstone, _ = Tombstone.objects.get_or_create(
            record_id=record.pk,
            defaults={"created_by": record.created_by, "persona": record.persona, "erased_by": caller.email},
        )
        relink_neighbors(caller, record, old)
        _erase_quotations(record, old, texts)
        for extension in extensions.registered():
            extension.erase_copies(record.pk, texts)
        MemoryRecord.objects.filter(pk=record.pk).delete()
    return tombstone


def texts_of(record: MemoryRecord) -> list[str]:
    """Return all current and earlier texts of a record, longest first.

    Quotations are replaced in this order, so that no rest of a longer text remains when a shorter one is part of it.
    """
    revisions = MemoryRevision.objects.filter(record=record).values_list("content", "details")
    earlier = [text for content, details in revisions for text in (content, str(details.get("summary") or ""))]
    texts = {text.strip() for text in (record.content, record.summary, *earlier)}
    return sorted((text for text in texts if len(text) >= QUOTED_FROM), key=lambda text: (-len(text), text))


def _erase_quotations(record: MemoryRecord, old: MemoryRecord | None, texts: list[str]) -> None:
    """Clear notes and reasons of changes to this record, and all others that quote one of its texts."""
    Batch.objects.filter(unit_ids__contains=[record.pk]).update(note="")
    if old is not None:  # the reason of the correction may repeat the correction's text
        MemoryRevision.objects.filter(record=old, change="supersede").update(reason="")
    for text in texts:
        Batch.objects.filter(note__contains=text).update(note="")
        MemoryRevision.objects.filter(reason__contains=text).update(reason="")
        Feedback.objects.filter(Q(note__contains=text) | Q(made_stale__contains=text)).update(note="")
