from __future__ import annotations

import logging
import time

from memories import embedding
from memories.identity.caller import system_caller
from memories.retrieval import index_status, indexing, term_statistics, vector_index
from memories.writing import bulk_actions

log = logging.getLogger(__name__)

TASK_SECONDS = 240  # well under the queue's timeout; the next run continues


def close_gaps() -> str:
    """Embed all rows whose vectors are missing or outdated, for at most TASK_SECONDS."""
    indexing.reap()
    try:
        model = embedding.current().name
    except embedding.EmbedderUnavailable as error:
        return f"degraded: {error}"
    opened = indexing.reconcile(model)
    completed, failed = _do_jobs()
    return f"{opened} gaps found, {completed} closed, {failed} put back"


def run_index_jobs() -> str:
    """Run the index jobs that are due, without searching for more rows to embed."""
    if not indexing.due_jobs().exists():  # don't load the model for nothing
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
        batch_completed, batch_failed = indexing.run_batch(indexing.worker_name())
        completed, failed = completed + batch_completed, failed + batch_failed
        if not batch_completed and not batch_failed:
            break
    return completed, failed


def reindex(kind: str) -> int:
    # The admin's permission was checked when this task was queued.
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
