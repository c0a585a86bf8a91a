"""Permanent erasure of a memory, its revisions and vectors, and the copies that were made of it.

Copies are found by their origin: ids that rows keep of the memory, and Quotation. The same words in a text that
somebody wrote independently are no copy. They stay, and are reported (see same_words.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext

from foundation.database import identity
from foundation.operations.errors import Conflict, Invalid
from foundation.people.caller import Caller
from memories import extensions
from memories.models import Batch, IndexJob, MemoryRecord, MemoryRevision, Quotation, SameWords, Status, Tombstone
from memories.operations import Erase
from memories.retrieval import term_changes
from memories.use.citations.changes import note_erased
from memories.writing import same_words, text_places
from memories.writing.correction_chains import lock_predecessor, locked_with_predecessor, take_out
from memories.writing.hand_overs import DUPLICATE_OF
from memories.writing.quotations import QUOTED_FROM
from memories.writing.revision import revised
from memories.writing.text_places import BATCH_NOTES, MEMORIES, REASONS

ERASED = "its correction was erased"  # reason in the history of the memories before and after an erased one


@dataclass(frozen=True)
class Erasure:
    tombstone: Tombstone
    removed: Mapping[str, int]  # kind of row → number of copies that were deleted or cleared
    same_words: Mapping[str, int]  # kind of row → number of other texts with the same words that the caller may read


def erase(caller: Caller, operation: Erase) -> Erasure:
    """Erase a memory and its copies. A tombstone remains.

    The memory's predecessor and correction are linked to each other. If there is no correction in force, the
    predecessor is archived: it is not reactivated, because it was found to be wrong. Raises Invalid without `confirm`,
    Forbidden if the caller is neither the owner nor an admin, and Conflict if an extension refuses, for example because
    the memory is applied to the catalog.
    """
    if not operation.confirm:
        raise Invalid(
            gettext(
                "is not set, so nothing was erased: forget archives the memory and can be undone; erasing can't be, "
                "and needs a person's yes"
            ),
            field="confirm",
        )
    with transaction.atomic():
        record, old = locked_with_predecessor(caller, operation.record_id)
        with identity.service("erasure"):
            texts = texts_of(record)
            tombstone, removed = erase_locked(caller, record, old)
            found = same_words.list_for_admins(caller, tombstone, texts)
            term_changes.count_all()
    return Erasure(tombstone, removed, found)


def check_erase(caller: Caller, operation: Erase) -> MemoryRecord:
    """Return the memory that `erase` would erase. Raises the same errors, except for `confirm`."""
    with transaction.atomic():
        record, _ = locked_with_predecessor(caller, operation.record_id)
        with identity.service("erasure"):
            extensions.check_erase(record)
    return record


def erase_locked(caller: Caller, record: MemoryRecord, old: MemoryRecord | None) -> tuple[Tombstone, Counter[str]]:
    """Erase a locked record, of which `old` is the locked predecessor. Texts with the same words are not looked for."""
    extensions.check_erase(record)
    copies = sorted({*_copied_memories(record), *_made_memories(record)})
    IndexJob.objects.filter(source_id=record.pk).delete()
    tombstone, _ = Tombstone.objects.get_or_create(
        record_id=record.pk,
        defaults={"created_by": record.created_by, "persona": record.persona, "erased_by": caller.email},
    )
    if not take_out(caller, record, old, ERASED) and old is not None and old.superseded_by == record.pk:
        with revised(caller, old, "erase", ERASED):
            old.status = Status.ARCHIVED
            old.superseded_by = None
            old.superseded_at = None
    removed = remove_copies(caller, record)
    MemoryRecord.objects.filter(pk=record.pk).delete()
    return tombstone, removed + _erase_copies(caller, copies)


def erase_same_words(caller: Caller, *, entry_id: UUID | str) -> SameWords:
    """Erase a text that has the same words as an erased memory. Only admins may, and only if it is as it was found."""
    with transaction.atomic():
        entry, place, row = same_words.take(caller, entry_id=entry_id)
        if place.name == MEMORIES:
            _erase_by_id(caller, row.pk)
        else:
            text_places.remove(place, row)
        with identity.service("erasure"):
            term_changes.count_all()
    return entry


@identity.service("erasure")
def purge_copies(caller: Caller, record: MemoryRecord) -> None:
    """Remove the copies of a locked record that is about to be purged, and the memories that were made from it."""
    made = _made_memories(record)
    remove_copies(caller, record)
    _erase_copies(caller, made)


def texts_of(record: MemoryRecord) -> list[str]:
    """Return the current and earlier texts and summaries of a record, longest first.

    Texts shorter than QUOTED_FROM characters are left out. Quotations are cut in this order, so that a text that
    contains another text is cut as a whole.
    """
    revisions = MemoryRevision.objects.filter(record=record).values_list("content", "details")
    earlier = [text for content, details in revisions for text in (content, str(details.get("summary") or ""))]
    texts = {text.strip() for text in (record.content, record.summary, *earlier)}
    return sorted((text for text in texts if len(text) >= QUOTED_FROM), key=lambda text: (-len(text), text))


def remove_copies(caller: Caller, record: MemoryRecord) -> Counter[str]:
    """Remove the copies of a locked record outside of memories. Return the number of rows by kind."""
    texts = texts_of(record)
    removed = extensions.erase_copies(caller, record.pk, texts)
    removed.update(note_erased(caller, record))
    places = text_places.places()
    for quotation in Quotation.objects.filter(record=record).exclude(place=MEMORIES).order_by("pk"):
        place = places.get(quotation.place)
        row = place.model._default_manager.filter(pk=quotation.row).first() if place else None
        if place is None or row is None:  # the row was deleted, or its app is no longer installed
            continue
        if isinstance(row, Batch) and place.name == BATCH_NOTES:
            removed += _cut_repeated_notes(row, record, texts)
        if quotation.is_whole:
            text_places.remove(place, row)
            removed[place.name] += 1
        else:
            removed[place.name] += text_places.cut(place, row, texts)
    return +removed


def _copied_memories(record: MemoryRecord) -> list[UUID]:
    """Return the ids of memories that are copies of this one.

    These are the turn that it was derived from and long-term memories derived from it, if they have the same text (a
    correction of a long-term memory has another one), duplicates that a hand-over has archived because this memory
    stays, and those that extensions know.
    """
    relatives = MemoryRecord.objects.filter(Q(derived_from=record.pk) | Q(pk=record.derived_from)).defer("search")
    own_texts = _contents(record)
    ids = [relative.pk for relative in relatives if own_texts & _contents(relative)]
    archived = MemoryRecord.objects.filter(created_by=record.created_by, status=Status.ARCHIVED)
    duplicates = archived.filter(metadata__has_key=DUPLICATE_OF, **{f"metadata__{DUPLICATE_OF}": record.pk.hex})
    ids += duplicates.values_list("pk", flat=True)
    return ids + extensions.copied_memories(record)


def _made_memories(record: MemoryRecord) -> list[UUID]:
    """Return the ids of memories whose text was made from this one and others: summaries and merged memories."""
    rows = Quotation.objects.filter(record=record, place=MEMORIES).values_list("row", flat=True)
    return [UUID(pk) for pk in rows]


def _contents(record: MemoryRecord) -> set[str]:
    return {record.content, *MemoryRevision.objects.filter(record=record).values_list("content", flat=True)}


def _erase_copies(caller: Caller, record_ids: Sequence[UUID]) -> Counter[str]:
    """Erase memories that are copies. The permission for their origin suffices. Copies of copies are erased, too."""
    removed: Counter[str] = Counter()
    for pk in record_ids:
        try:
            removed += _erase_by_id(caller, pk)
        except Conflict as error:
            raise Conflict(
                gettext("has a copy, %(pk)s, which %(fault)s") % {"pk": pk.hex, "fault": error.fault}, field="id"
            ) from None
    return removed


def _erase_by_id(caller: Caller, record_id: UUID) -> Counter[str]:
    old = lock_predecessor(record_id)
    record = MemoryRecord.objects.select_for_update().filter(pk=record_id).first()
    if record is None:  # another copy has led here before
        return Counter()
    _, removed = erase_locked(caller, record, old)
    return removed + Counter({MEMORIES: 1})


def _cut_repeated_notes(batch: Batch, record: MemoryRecord, texts: Sequence[str]) -> Counter[str]:
    """Cut quotations out of the history of a batch's other memories, where its note was stored, too."""
    place = text_places.places()[REASONS]
    rows = MemoryRevision.objects.filter(record__in=batch.unit_ids, changed_by=batch.created_by, reason=batch.note)
    rows = rows.filter(valid_to__gte=batch.created_at).exclude(record=record)
    return Counter({place.name: sum(text_places.cut(place, row, texts) for row in rows)})
