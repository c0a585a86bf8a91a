"""Permanent erasure of a memory, its revisions and vectors, and copies and quotations of its texts."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q

from memories import extensions
from memories.contract.errors import Invalid
from memories.database import identity
from memories.identity.caller import Caller
from memories.models import Batch, Feedback, IndexJob, MemoryRecord, MemoryRevision, Status, Tombstone
from memories.operations import Erase
from memories.writing.correction_chains import locked_with_predecessor, take_out
from memories.writing.revision import revised

# Minimum number of characters of a text whose quotations are erased. A shorter text may occur elsewhere by chance.
QUOTED_FROM = 10
ERASED = "its correction was erased"  # reason in the history of the memories before and after an erased one


def erase(operation: Erase, *, caller: Caller) -> Tombstone:
    """Erase a memory, its copies, and quotations of its texts. A tombstone remains.

    The memory's predecessor and correction are linked to each other. If there is no correction in force, the
    predecessor is archived: it is not reactivated, because it was found to be wrong. Raises Invalid without `confirm`,
    Forbidden if the caller is neither the owner nor an admin, and Conflict if an extension refuses, for example because
    the memory is applied to the catalog.
    """
    if not operation.confirm:
        raise Invalid("is not set: erasing can't be undone", field="confirm", allowed="true")
    with transaction.atomic():
        record, old = locked_with_predecessor(caller, operation.record_id)
        for extension in extensions.registered():
            extension.check_erase(record)
        with identity.service("erasure"):
            texts = texts_of(record)
            IndexJob.objects.filter(source_kind="memory", source_id=record.pk).delete()
            tombstone, _ = Tombstone.objects.get_or_create(
                record_id=record.pk,
                defaults={"created_by": record.created_by, "persona": record.persona, "erased_by": caller.email},
            )
            if not take_out(caller, record, old, ERASED) and old is not None and old.superseded_by == record.pk:
                with revised(caller, old, "erase", ERASED):
                    old.status, old.superseded_by, old.superseded_at = Status.ARCHIVED, None, None
            _erase_quotations(record, old, texts)
            for extension in extensions.registered():
                extension.erase_copies(record.pk, texts)
            MemoryRecord.objects.filter(pk=record.pk).delete()
    return tombstone


def texts_of(record: MemoryRecord) -> list[str]:
    """Return the current and earlier texts and summaries of a record, longest first.

    Texts shorter than QUOTED_FROM characters are left out. Extensions replace quotations in this order, so that a text
    that contains another text is replaced as a whole.
    """
    revisions = MemoryRevision.objects.filter(record=record).values_list("content", "details")
    earlier = [text for content, details in revisions for text in (content, str(details.get("summary") or ""))]
    texts = {text.strip() for text in (record.content, record.summary, *earlier)}
    return sorted((text for text in texts if len(text) >= QUOTED_FROM), key=lambda text: (-len(text), text))


def _erase_quotations(record: MemoryRecord, old: MemoryRecord | None, texts: list[str]) -> None:
    """Clear notes of batches with this record, and notes and reasons of other rows that quote one of its texts."""
    Batch.objects.filter(unit_ids__contains=[record.pk]).update(note="")
    if old is not None:  # the reason for superseding it may repeat the text of the erased correction
        MemoryRevision.objects.filter(record=old, change="supersede").update(reason="")
    for text in texts:
        Batch.objects.filter(note__contains=text).update(note="")
        MemoryRevision.objects.filter(reason__contains=text).update(reason="")
        Feedback.objects.filter(Q(note__contains=text) | Q(made_stale__contains=text)).update(note="")
