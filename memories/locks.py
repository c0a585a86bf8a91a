"""Work that one process at a time may do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from django.db import connection

from memories.errors import DomainError

SEED = 2  # apart from the locks that live as long as a transaction, which hash with 0 and 1


@contextmanager
def alone(what: str, pk: UUID, busy: DomainError) -> Iterator[None]:
    """Nobody else is at work on this `what` meanwhile, or `busy` is raised; a killed process lets go by itself."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, %s))", [f"{what} {pk.hex}", SEED])
        if not cursor.fetchone()[0]:
            raise busy
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(hashtextextended(%s, %s))", [f"{what} {pk.hex}", SEED])
