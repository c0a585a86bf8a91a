from __future__ import annotations

import logging
import time

from django.utils import timezone
from django_q.models import OrmQ

from foundation import embedding
from foundation.database import locks
from foundation.people.caller import system_caller
from memories.retrieval import index_status, indexing, term_changes

log = logging.getLogger(__name__)

SHARED_SECONDS = 15
TASK_SECONDS = 240  # seconds after which a task starts no more batches; less than the queue's timeout


def close_gaps() -> str:
    """Queue jobs for rows whose vectors are missing or outdated, and run the jobs for about TASK_SECONDS.

    Rows without a vector of this model are found at once. Whether vectors belong to the texts is compared for a part of
    the rows in each run, and for all once a day.
    """
    indexing.reap()
    try:
        model = embedding.current().name
    except embedding.EmbedderUnavailable as error:
        return f"degraded: {error}"
    is_running = locks.is_locked(*indexing.EMBED_LOCK)  # the command `embed`
    opened = 0 if is_running else indexing.reconcile(model, within=indexing.due_keys(timezone.now()))
    completed, failed = _do_jobs()
    left, total = index_status.remaining(model)
    return f"{opened} jobs opened, {completed} closed, {failed} put back or failed; {left} of {total} left"


def run_index_jobs() -> str:
    """Run the index jobs that are due. Unlike `close_gaps`, this does not search for rows with outdated vectors."""
    if indexing.has_forgotten_memories():
        return close_gaps()
    if not indexing.due_jobs().exists():  # the model need not be loaded
        return "nothing is due"
    try:
        embedding.current()
    except embedding.EmbedderUnavailable as error:
        return f"degraded: {error}"
    completed, failed = _do_jobs()
    return f"{completed} closed, {failed} put back or failed"


def _do_jobs() -> tuple[int, int]:
    """Run jobs until none is due, for TASK_SECONDS at most, or for SHARED_SECONDS if other tasks wait in the queue.

    Jobs that are left are done by the next run, which the schedule starts within a minute.
    """
    started = time.monotonic()
    completed = failed = 0
    with indexing.worker() as worker:
        while (worked_s := time.monotonic() - started) < TASK_SECONDS:
            if worked_s > SHARED_SECONDS and OrmQ.objects.filter(lock__lt=timezone.now()).exists():
                break
            batch_completed, batch_failed = indexing.run_batch(worker)
            completed = completed + batch_completed
            failed = failed + batch_failed
            if not batch_completed and not batch_failed:
                break
    return completed, failed


def reindex(kind: str) -> int:
    # The operator's permission was checked before this task was queued.
    count = index_status.reindex(system_caller(), kind=kind)
    close_gaps()
    return count


def refresh_term_statistics() -> str:
    return term_changes.update()


def delete_closed_jobs() -> int:
    return indexing.delete_closed_jobs()
