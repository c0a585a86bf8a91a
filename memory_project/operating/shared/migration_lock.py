"""One `migrate` at a time on a database, also from several machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from django.db import connection

from foundation.database.locks import DIRECT

KEY = 4_072_116_553  # of the advisory lock; the locks of foundation/database/locks.py are hashes of names
RETRY_S = 0.5


@contextmanager
def single_migration(say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock for the duration of the block. `say` gets a line if another process holds it meanwhile.

    The lock belongs to a connection of its own, because migrating closes the usual one.
    """
    parameters = {k: v for k, v in connection.get_connection_params().items() if k in DIRECT}
    with psycopg.connect(**parameters, autocommit=True) as holder:
        is_told = False
        # Asking again and again, instead of waiting in PostgreSQL: CREATE INDEX CONCURRENTLY in the other process would
        # wait for a statement that waits here.
        while not _try(holder):
            if not is_told:
                say("Another process is migrating this database: waiting for it.")
                is_told = True
            time.sleep(RETRY_S)
        yield


def _try(holder: psycopg.Connection[tuple[object, ...]]) -> bool:
    row = holder.execute("SELECT pg_try_advisory_lock(%s)", [KEY]).fetchone()
    return bool(row and row[0])
