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
    indexing.reap()
    enrichment.reopen()
    completed = failed = 0
    deadline = time.monotonic() + TASK_SECONDS
    with indexing.worker() as worker:
        while time.monotonic() < deadline:
            batch_completed, batch_failed = enrichment.enrich_batch(worker)
            completed = completed + batch_completed
            failed = failed + batch_failed
            if not batch_completed and not batch_failed:
                break
    return f"{completed} enriched, {failed} put back or failed"


def consolidate() -> str:
    result = summaries.consolidate()
    # Expired turns are deleted last, so that they can be summarized or promoted before.
    expired, purged = deletion.delete_expired()
    return (
        f"{result.compressed} summarized, {result.promoted} promoted, {result.forgotten} forgotten; "
        f"{expired} expired, {purged} purged"
    )


def delete_expired_answers() -> int:
    return cache.delete_expired()


def count_accesses(record_ids: list[str]) -> int:
    rows = MemoryRecord.objects.filter(pk__in=[UUID(pk) for pk in record_ids])
    return rows.update(access_count=F("access_count") + 1, last_accessed_at=timezone.now())
