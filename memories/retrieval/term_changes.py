"""Document frequencies of search terms, kept current by counting only the memories that have changed.

Triggers on memory_records write a row of memory_lexeme_changes for each memory that is added to the counts or removed
from them, in the transaction of the change. A run deletes the rows that it sees and adds them to memory_lexemes in one
statement. So a change is counted once and only once it is committed, however late that is, and runs need no clock.

The exact counts are sums, so they follow from the changes alone. The rough count of a lexeme exists only if at least
MIN_OWNERS people use the lexeme, which sums do not tell. So its row has `people`, a lower bound: the number of people
at the last recount, minus those who have given up a memory with it since. If the bound falls below MIN_OWNERS, and
if somebody begins to use a lexeme without a rough count, the people are counted anew from the index of the words.
"""

from __future__ import annotations

import time

from django.db import connection, transaction

from foundation.database import sql_files
from memories.retrieval import term_statistics

BATCH = 5_000  # changes of one transaction
TASK_SECONDS = 240  # seconds after which a task starts no more batches; less than the queue's timeout
SQL = sql_files.statements(__file__)


def update() -> str:
    """Add the changes since the last run to the counts, for about TASK_SECONDS; count everything if nothing is counted.

    What is left is counted in the next run.
    """
    if not _is_counted():
        return f"{term_statistics.refresh()} counts of all memories"
    deadline = time.monotonic() + TASK_SECONDS
    total = 0
    while True:
        count = _update_batch()
        total += count
        if count < BATCH or time.monotonic() > deadline:
            return f"{total} changes counted"


def count_all() -> None:
    """Count what waits now, in the transaction of an erasure: a waiting change holds the words of the erased text.

    Call it last, because other counts wait for the end of the transaction.
    """
    if not _is_counted():
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM memory_lexeme_changes")  # the first count will read all memories
        return
    while _update_batch() == BATCH:
        pass


def _is_counted() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM memory_lexemes WHERE lexeme = '' AND rough AND people IS NOT NULL)")
        return bool(cursor.fetchone()[0])


def _update_batch() -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        term_statistics.lock(cursor)
        cursor.execute(SQL["update"], {"batch": BATCH, "people": term_statistics.MIN_OWNERS})
        return int(cursor.fetchone()[0])
