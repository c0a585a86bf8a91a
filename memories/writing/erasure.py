"""A text that goes for good: record, revisions, vectors, and every copy of what it said."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q

from memories import extensions
from memories.contract.errors import Invalid
from memories.identity.caller import Caller
from memories.models import Batch, Feedback, IndexJob, MemoryRecord, MemoryRevision, Tombstone
from memories.operations import Erase
from memories.writing.correction_chains import locked_with_predecessor, relink_neighbours

QUOTED_FROM = 10  # characters: a shorter text is a word, which others may have used for themselves


def erase(operation: Erase, *, caller: Caller) -> Tombstone:
    """Removes a text for good, and what others copied or quoted of it. Only the fact that it was erased stays. The
    chain closes over the gap. Raises Invalid without `confirm`, Conflict while it stands in the catalog."""
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
        relink_neighbours(caller, record, old)
        _forget_quotations(record, old, texts)
        for extension in extensions.registered():
            extension.erase_copies(record.pk, texts)
        MemoryRecord.objects.filter(pk=record.pk).delete()
    return tombstone


def texts_of(record: MemoryRecord) -> list[str]:
    """Every text that the record has had, longest first, so that a part is never left of a longer one."""
    revisions = MemoryRevision.objects.filter(record=record).values_list("content", "details")
    earlier = [text for content, details in revisions for text in (content, str(details.get("summary") or ""))]
    texts = {text.strip() for text in (record.content, record.summary, *earlier)}
    return sorted((text for text in texts if len(text) >= QUOTED_FROM), key=lambda text: (-len(text), text))


def _forget_quotations(record: MemoryRecord, old: MemoryRecord | None, texts: list[str]) -> None:
    """Notes and reasons: of acts on this record, and wherever else they repeat its words."""
    Batch.objects.filter(unit_ids__contains=[record.pk]).update(note="")
    if old is not None:  # why it was corrected belongs to the correction
        MemoryRevision.objects.filter(record=old, change="supersede").update(reason="")
    for text in texts:
        Batch.objects.filter(note__contains=text).update(note="")
        MemoryRevision.objects.filter(reason__contains=text).update(reason="")
        Feedback.objects.filter(Q(note__contains=text) | Q(made_stale__contains=text)).update(note="")
