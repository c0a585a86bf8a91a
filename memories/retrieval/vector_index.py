"""The vector index of large scopes: IVFFlat over half-precision vectors.

Derived, and outside of the migrations: it is as good as the rows that its lists were trained on, so a worker builds it
once there are enough of them, and anew whenever they are about three times as many. Without it the same statements
scan, and find the same or more.
"""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.db import ProgrammingError, connection

from memories.contract.errors import Conflict
from memories.database.locks import exclusive
from memories.database.owner import as_owner

NAME, NEXT = "passage_vectors", "passage_vectors_next"
TRAINED_FROM = 5_000  # passages; fewer are scanned as quickly
# A search compares the vectors of RECALL_PROBES lists, 80: most of 10,000, a fifth of 100,000, 1 in 25 of a million.
# With fewer lists it takes longer, with more it misses more (bench/recall_speed.py).
MAX_LISTS = 2_000  # training takes memory by their square: .9 GB
LISTS_AT_RETRAINING = 2  # times as many as there are: 2.8 times the rows
SAMPLES_PER_LIST = 50  # pgvector's k-means
IN_A_WORKER = 3_000_000  # passages; more take longer than a worker's task may

STATE = """
    SELECT (SELECT count(*) FROM memory_passages WHERE NOT short_term), coalesce((
        SELECT substring(array_to_string(reloptions, ',') FROM 'lists=(\\d+)')::int FROM pg_class
        WHERE oid = to_regclass(%s)
    ), 0)"""


def distance(first: str, second: str) -> str:
    """SQL: the cosine distance of two vectors as the index orders by it, right to some three digits."""
    half = f"halfvec({settings.EMBEDDING_DIMENSIONS})"
    return f"{first}::{half} <=> {second}::{half}"


def train(*, in_worker: bool = False) -> str:
    """Builds the index where it is missing or was trained on a third of today's rows; says how it stands. Writes and
    searches go on meanwhile."""
    with connection.cursor() as cursor:
        cursor.execute(STATE, [NAME])
        rows, lists = cursor.fetchone()
    lists_due = min(round(rows ** (2 / 3) / 5), MAX_LISTS)
    if rows < TRAINED_FROM or lists_due < LISTS_AT_RETRAINING * lists:
        return f"{rows} passages, {lists} lists" if lists else f"{rows} passages are scanned"
    if in_worker and rows > IN_A_WORKER:
        return f"{rows} passages, {lists} lists: run `manage.py rebuild_search`, which has the time for more"
    try:
        with exclusive("vector index", UUID(int=0), Conflict("another process builds the vector index")), as_owner():
            _build(lists_due)
    except Conflict as error:
        return str(error)
    except ProgrammingError as error:
        return f"{rows} passages, {lists} lists: {error}; DATABASE_OWNER_URL names the role that may build more"
    return f"{rows} passages, {lists_due} lists, built anew"


def drop() -> None:
    """For the owner of the tables, before their vectors change."""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX IF EXISTS {NAME}, {NEXT}")


def _build(lists: int) -> None:
    half = f"halfvec({settings.EMBEDDING_DIMENSIONS})"
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {NEXT}")  # of a build that was interrupted
        cursor.execute("SELECT set_config('maintenance_work_mem', %s, false)", [f"{_megabytes(lists)}MB"])
        try:
            cursor.execute(
                f"CREATE INDEX CONCURRENTLY {NEXT} ON memory_passages USING ivfflat ((vector::{half})"
                f" halfvec_cosine_ops) WITH (lists = {lists}) WHERE NOT short_term"
            )
        finally:
            cursor.execute("RESET maintenance_work_mem")
        cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}")
        cursor.execute(f"ALTER INDEX {NEXT} RENAME TO {NAME}")


def _megabytes(lists: int) -> int:
    """What k-means needs: its samples, and a bound of the distance from each sample to each centre."""
    samples = max(SAMPLES_PER_LIST * lists, 10_000)
    vectors = (samples + 2 * lists) * (4 * settings.EMBEDDING_DIMENSIONS + 16)
    bounds = 4 * (samples * lists + lists * lists)
    return 64 + (vectors + bounds) // 2**20
