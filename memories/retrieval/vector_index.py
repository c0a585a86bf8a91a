"""The vector index for large scopes: IVFFlat over half-precision vectors.

The index is derived data. No migration creates it, because its quality depends on the rows on which its lists are
trained. A worker builds it when there are enough rows, and rebuilds it when a new index would have at least twice as
many lists, which takes about 2.8 times the rows. Without the index, the same statements still work: PostgreSQL scans
the whole table and finds the same rows or more.
"""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.db import OperationalError, ProgrammingError, connection
from django.utils.translation import gettext

from memories.contract.errors import Conflict
from memories.database import connections, locks
from memories.database.locks import exclusive
from memories.database.owner import as_owner

NAME, NEXT = "passage_vectors", "passage_vectors_next"
TRAINED_FROM = 5_000  # minimum number of passages for an index; fewer are scanned as quickly
# A search compares the vectors of RECALL_PROBES lists, by default 80. They hold most of the vectors if there are
# 10,000, a fifth if there are 100,000, and 1 in 25 if there are a million. If the index had fewer lists, a search
# would take longer. If it had more lists, a search would miss more rows (bench/recall_speed.py).
MAX_LISTS = 2_000  # maximum number of lists; memory for training grows with their square, to about 1 GB for 2,000
LISTS_AT_RETRAINING = 2  # factor by which the number of lists must grow before a rebuild
SAMPLES_PER_LIST = 50  # number of vectors sampled per list for training, as in pgvector's k-means
MEMORY_EXCEEDED = "54000"  # pgvector's SQLSTATE if the training needs more than maintenance_work_mem
IN_A_WORKER = 3_000_000  # maximum number of passages that a worker indexes; more would take too long for its task

STATE = """
    SELECT (SELECT count(*) FROM memory_passages WHERE NOT short_term), coalesce((
        SELECT substring(array_to_string(reloptions, ',') FROM 'lists=(\\d+)')::int FROM pg_class
        WHERE oid = to_regclass(%s)
    ), 0)"""


def distance(first: str, second: str) -> str:
    """Return SQL for the cosine distance by which the index orders, exact to about three digits."""
    half = f"halfvec({settings.EMBEDDING_DIMENSIONS})"
    return f"{first}::{half} <=> {second}::{half}"


def train(*, in_worker: bool = False) -> str:
    """Build the index if there are enough rows and it is missing or has too few lists; return its state as text.

    Writes and searches continue during the build.
    """
    with connection.cursor() as cursor:
        cursor.execute(STATE, [NAME])
        rows, lists = cursor.fetchone()
    lists_due = min(round(rows ** (2 / 3) / 5), MAX_LISTS)
    if rows < TRAINED_FROM or lists_due < LISTS_AT_RETRAINING * lists:
        return f"{rows} passages, {lists} lists" if lists else f"{rows} passages: no index needed below {TRAINED_FROM}"
    if in_worker and rows > IN_A_WORKER:
        return f"{rows} passages, {lists} lists: too many for a worker to index; run `manage.py rebuild_search`"
    try:
        with (
            exclusive("vector index", UUID(int=0), Conflict(gettext("another process is building the vector index"))),
            as_owner(),
        ):
            _build(lists_due)
    except Conflict as error:
        return str(error)
    except ProgrammingError as error:
        return f"{rows} passages, {lists} lists: {error}; set DATABASE_OWNER_URL to a role that may build the index"
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", "") != MEMORY_EXCEEDED:
            raise
        return f"{rows} passages, {lists} lists: {error}; set DATABASE_OWNER_URL to an address without a pooler"
    return f"{rows} passages, {lists_due} lists, built"


def drop() -> None:
    """Drop the index before the vectors change their dimensions. Only the owner of the table may do this."""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX IF EXISTS {NAME}, {NEXT}")


def _build(lists: int) -> None:
    half = f"halfvec({settings.EMBEDDING_DIMENSIONS})"
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {NEXT}")  # left by an interrupted build
        has_session = not connections.is_behind_pooler()
        if has_session:
            cursor.execute("SELECT set_config('maintenance_work_mem', %s, false)", [f"{_megabytes(lists)}MB"])
        try:
            cursor.execute(
                f"CREATE INDEX CONCURRENTLY {NEXT} ON memory_passages USING ivfflat ((vector::{half})"
                f" halfvec_cosine_ops) WITH (lists = {lists}) WHERE NOT short_term"
            )
        finally:
            if has_session:
                cursor.execute("RESET maintenance_work_mem")
        locks.check()
        cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}")
        cursor.execute(f"ALTER INDEX {NEXT} RENAME TO {NAME}")


def _megabytes(lists: int) -> int:
    # k-means keeps in memory its samples, and a bound of the distance from each sample to each center.
    samples = max(SAMPLES_PER_LIST * lists, 10_000)
    vectors = (samples + 2 * lists) * (4 * settings.EMBEDDING_DIMENSIONS + 16)
    bounds = 4 * (samples * lists + lists * lists)
    return 64 + (vectors + bounds) // 2**20
