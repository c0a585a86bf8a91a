"""What background workers do. Thin, idempotent, and safe to be killed at any line."""

from __future__ import annotations

import logging
import time

from memories import embedding
from memories.identity.caller import system_caller
from memories.retrieval import index_status, indexing, term_statistics, vector_index
from memories.writing import bulk_actions

log = logging.getLogger(__name__)

TASK_SECONDS = 240  # well under the queue's time-out; what is left is taken up by the next run


def close_gaps() -> str:
    """Finds rows without a good vector and embeds them, until none is due or the time is up."""
    indexing.reap()
    try:
        model = embedding.current().name
    except embedding.EmbedderUnavailable as error:
        return f"degraded: {error}"
    opened = indexing.reconcile(model)
    completed, failed = _do_jobs()
    return f"{opened} gaps found, {completed} closed, {failed} put back"


def run_index_jobs() -> str:
    """Does what is due, without looking for more; loads no model for nothing."""
    if not indexing.due_jobs().exists():
        return "nothing is due"
    try:
        embedding.current()
    except embedding.EmbedderUnavailable as error:
        return f"degraded: {error}"
    completed, failed = _do_jobs()
    return f"{completed} closed, {failed} put back"


def _do_jobs() -> tuple[int, int]:
    deadline = time.monotonic() + TASK_SECONDS
    completed = failed = 0
    while time.monotonic() < deadline:
        good, bad = indexing.run_batch(indexing.worker_name())
        completed, failed = completed + good, failed + bad
        if not good and not bad:
            break
    return completed, failed


def reindex(kind: str) -> int:
    """Queues every row of a kind and begins with them; an admin asked for it at the door that queued this."""
    count = index_status.reindex(caller=system_caller(), kind=kind)
    close_gaps()
    return count


def finish_batch(batch_id: str) -> None:
    bulk_actions.finish(batch_id)


def refresh_term_statistics() -> int:
    return term_statistics.refresh()


def train_vector_index() -> str:
    return vector_index.train(in_worker=True)


def delete_closed_jobs() -> int:
    return indexing.delete_closed_jobs()
