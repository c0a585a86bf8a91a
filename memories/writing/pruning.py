"""Pruning of notes stored by memory_store: by age, by use, or because a newer note repeats them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from foundation.lazy_numpy import np
from foundation.operations.errors import DomainError
from foundation.people.caller import Caller
from memories import extensions
from memories.models import Feedback, MemoryRecord, Passage, Source, Status, Verdict, Visibility
from memories.operations import PruneNotes
from memories.texts.comparison import is_same_fact
from memories.writing.revision import revised

MAX_NOTES = 5_000  # maximum number of a user's notes that one call examines
EXAMPLES = 5  # maximum number of pruned notes named in the response
REASON = "pruned"


def prune(caller: Caller, operation: PruneNotes) -> list[MemoryRecord]:
    """Archive the caller's notes that match the operation, and return them. With `dry_run`, archive nothing.

    These notes are kept: notes that wait for review or are applied to the catalog, members of correction chains, and
    notes that are shared, verified or marked as useful.
    """
    with transaction.atomic():
        due = _due(caller, operation)
        if not operation.dry_run:
            purge_after = timezone.now() + timedelta(days=settings.SOFT_DELETE_PURGE_DAYS)
            for record in due:
                with revised(caller, record, "forget", REASON):
                    record.status = Status.ARCHIVED
                    record.purge_after = purge_after
    return due


def examples(records: Sequence[MemoryRecord]) -> list[str]:
    return [f"{record.pk.hex}: {record.content[:80]}" for record in records[:EXAMPLES]]


def _due(caller: Caller, operation: PruneNotes) -> list[MemoryRecord]:
    useful_marks = Feedback.objects.filter(record=OuterRef("pk"), verdict=Verdict.USEFUL, counts=True)
    rows = (
        MemoryRecord.objects.visible_to(caller)
        .facts()
        .filter(created_by=caller.email, source=Source.NOTE, status=Status.ACTIVE, visibility=Visibility.PRIVATE)
        .filter(supersedes__isnull=True, superseded_by__isnull=True, last_verified_at__isnull=True)
        .filter(created_at__lte=timezone.now() - timedelta(days=operation.days))
        .filter(~Exists(useful_marks))
        .order_by("-access_count", "-last_accessed_at", "-created_at")
        .defer("search")
    )
    notes = [note for note in rows.select_for_update(of=("self",))[:MAX_NOTES] if _is_prunable(note)][operation.keep :]
    return _with_newer_near_duplicate(caller, notes) if operation.near_duplicates else notes


def _is_prunable(note: MemoryRecord) -> bool:
    try:
        # Extensions raise a DomainError for notes that wait for review or are applied to the catalog.
        extensions.check_share(note)
        extensions.check_erase(note)
    except DomainError:
        return False
    return True


def _with_newer_near_duplicate(caller: Caller, notes: Sequence[MemoryRecord]) -> list[MemoryRecord]:
    notes_of_caller = MemoryRecord.objects.filter(created_by=caller.email, source=Source.NOTE, status=Status.ACTIVE)
    passages = Passage.objects.filter(record__in=notes_of_caller, start=0).order_by("-record__created_at", "record_id")
    rows = list(passages.values_list("record_id", "record__content", "vector")[:MAX_NOTES])  # newest first
    if not rows:
        return []
    vectors = np.array([vector for _, _, vector in rows], dtype=np.float32)
    repeated = set()
    for n, (pk, text, _) in enumerate(rows):
        similar = np.flatnonzero(vectors[:n] @ vectors[n] >= settings.NEAR_DUPLICATE_COSINE)
        if any(is_same_fact(text, rows[newer][1]) for newer in similar):
            repeated.add(pk)
    return [note for note in notes if note.pk in repeated]
