"""What background workers do for conversations. Thin, idempotent, and safe to be killed at any line."""

from __future__ import annotations

import time
from uuid import UUID

from django.db.models import F
from django.utils import timezone

from memories.conversation import cache, deletion
from memories.conversation.consolidation import enrichment, summaries
from memories.models import MemoryRecord
from memories.retrieval import indexing

TASK_SECONDS = 50


def enrich() -> str:
    """Sees to new long-term memories until none is due or the time is up."""
    indexing.reap()
    enrichment.reopen()
    completed = failed = 0
    deadline = time.monotonic() + TASK_SECONDS
    while time.monotonic() < deadline:
        good, bad = enrichment.enrich_batch(indexing.worker_name())
        completed, failed = completed + good, failed + bad
        if not good and not bad:
            break
    return f"{completed} enriched, {failed} put back"


def consolidate() -> str:
    """Sums up, promotes and forgets; only then what has expired goes."""
    result = summaries.consolidate()
    expired, purged = deletion.delete_expired()
    return (
        f"{result.compressed} summed up, {result.promoted} promoted, {result.forgotten} forgotten; "
        f"{expired} expired, {purged} purged"
    )


def delete_expired_answers() -> int:
    return cache.delete_expired()


def count_accesses(record_ids: list[str]) -> int:
    """Memories were recalled."""
    rows = MemoryRecord.objects.filter(pk__in=[UUID(pk) for pk in record_ids])
    return rows.update(access_count=F("access_count") + 1, last_accessed_at=timezone.now())
