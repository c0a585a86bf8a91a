"""The vector index for searches of many rows: IVFFlat over half-precision vectors.

The index is derived data. No migration creates it, because its quality depends on the rows on which its lists are
trained. A worker builds it when there are enough rows, and rebuilds it when a new index would have at least twice as
many lists, which takes about 2.8 times the rows. Without the index, the same statements still work: PostgreSQL scans
the whole table and finds the same rows or more.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db import OperationalError, ProgrammingError, connection
from django.utils.translation import gettext

from foundation.database import connections, locks
from foundation.database.locks import exclusive, is_locked
from foundation.database.owner import as_owner
from foundation.operations.errors import Conflict

NAME, NEXT = "passage_vectors", "passage_vectors_next"
TRAINED_FROM = 5_000  # minimum number of passages for an index; fewer are scanned as quickly
# A search compares the vectors of RECALL_PROBES lists, by default 80. They hold most of the vectors if there are
# 10,000, a fifth if there are 100,000, and 1 in 25 if there are a million. If the index had fewer lists, a search
# would take longer. If it had more lists, a search would miss more rows (bench/recall_speed.py).
MAX_LISTS = 32_768  # pgvector's own maximum; usually VECTOR_INDEX_MEMORY_MB sets a lower one
LISTS_AT_RETRAINING = 2  # factor by which the number of lists must grow before a rebuild
SAMPLES_PER_LIST = 50  # number of vectors sampled per list for training, as in pgvector's k-means
MEMORY_EXCEEDED = "54000"  # pgvector's SQLSTATE if the training needs more than maintenance_work_mem
IN_A_TASK = 3_000_000  # maximum number of passages that a task indexes, because a task is stopped after ten minutes
LOCK = ("vector index", UUID(int=0))

STATE = """
    SELECT (SELECT count(*) FROM memory_passages WHERE NOT short_term), coalesce((
        SELECT substring(array_to_string(reloptions, ',') FROM 'lists=(\\d+)')::int FROM pg_class
        WHERE oid = to_regclass(%s)
    ), 0)"""


def distance(first: str, second: str) -> str:
    """Return SQL for the cosine distance by which the index orders, exact to about three digits."""
    half = f"halfvec({settings.EMBEDDING_DIMENSIONS})"
    return f"{first}::{half} <=> {second}::{half}"


@dataclass(frozen=True)
class VectorIndexState:
    rows: int  # passages
    lists: int  # lists of the index; 0 if there is none
    lists_due: int  # lists that a new index would have

    @property
    def is_due(self) -> bool:
        return self.rows >= TRAINED_FROM and self.lists_due >= LISTS_AT_RETRAINING * self.lists

    @property
    def is_too_long_for_a_task(self) -> bool:
        return self.rows > IN_A_TASK

    def __str__(self) -> str:
        if self.lists:
            return f"{self.rows} passages, {self.lists} lists"
        if self.rows < TRAINED_FROM:
            return f"{self.rows} passages: no index needed below {TRAINED_FROM}"
        return f"{self.rows} passages, no index"


def state() -> VectorIndexState:
    with connection.cursor() as cursor:
        cursor.execute(STATE, [NAME])
        rows, lists = cursor.fetchone()
    return VectorIndexState(rows, lists, min(round(rows ** (2 / 3) / 5), max_lists()))


def max_lists() -> int:
    """Return the number of lists whose training fits into VECTOR_INDEX_MEMORY_MB."""
    return bisect_right(range(1, MAX_LISTS + 1), settings.VECTOR_INDEX_MEMORY_MB, key=_megabytes)


def train() -> str:
    """Build the index if there are enough rows and it is missing or has too few lists; return its state as text.

    Writes and searches continue during the build.
    """
    found = state()
    if not found.is_due:
        return str(found)
    try:
        with (
            exclusive(*LOCK, Conflict(gettext("another process is building the vector index"))),
            as_owner(),
        ):
            _build(found.lists_due)
    except Conflict as error:
        return str(error)
    except ProgrammingError as error:
        return f"{found}: {error}; set DATABASE_OWNER_URL to a role that may build the index"
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", "") != MEMORY_EXCEEDED:
            raise
        return f"{found}: {error}; set DATABASE_OWNER_URL to an address without a pooler"
    return f"{found.rows} passages, {found.lists_due} lists, built"


def progress() -> str:
    """Return how far a build by any process is, such as "loading tuples: 40 %", or "" if none is running."""
    if not is_locked(*LOCK):
        return ""
    with as_owner(), connection.cursor() as cursor:  # other roles do not see the numbers
        cursor.execute(
            "SELECT phase, CASE WHEN tuples_total > 0 THEN 100 * tuples_done / tuples_total END"
            " FROM pg_stat_progress_create_index WHERE relid = 'memory_passages'::regclass"
        )
        phase, percent = cursor.fetchone() or ("starting", None)
    return f"{phase}: {percent} %" if percent is not None else str(phase)


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
