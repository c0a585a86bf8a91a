"""The vector index: the tables that have vectors, the gaps in them, and the jobs that fill the gaps.

A gap is a row without a vector, with the vector of another model, or with the vector of an earlier text. Most writes
embed their text immediately. If that fails, the write or the reconciler queues a job, and a worker runs it. The row
that a job embeds is called its unit. Vectors are derived from texts, so all of this may be repeated at any time.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db import DataError, connection, models, transaction
from django.db.models import Exists, Expression, F, Func, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from foundation import embedding
from foundation.database import locks, prepared_statements
from foundation.embedding import Vectors
from foundation.operations.errors import Conflict
from foundation.registry import Registry
from memories.models import IndexJob, MemoryRecord, Passage, Status
from memories.models.index_job import JobStatus, Trigger
from memories.models.record import SPOKEN
from memories.retrieval import passages

LEASE = timedelta(minutes=2)  # for which a worker has a job; after that, another may take it over
MAX_ATTEMPTS = 5

BATCH = 32  # maximum number of jobs claimed at once
BACKOFF_BASE_S = 5  # a job is retried after BACKOFF_BASE_S · 2^attempts seconds
RETENTION = timedelta(days=14)  # time until a closed job is deleted, except an unresolved failure
WRITE_PAUSE = timedelta(minutes=1)  # time in which a write embeds its text itself
EMBED_LOCK = ("embed", UUID(int=0))  # held by the command `embed`
COMPARED_EVERY = timedelta(minutes=5)  # interval in which the reconciler compares one part of the rows
PARTS = timedelta(days=1) // COMPARED_EVERY
FAILED_PAUSE = timedelta(minutes=15)  # after a job has failed, time until the reconciler queues its unit again


@dataclass(frozen=True)
class VectorSource:
    """A kind of text that is searched by vector.

    Its rows have the columns `embedding_model` and `embedding_text_hash`. The vectors are in `vector_column` of the
    model `vectors`, which is the model of the rows or of their passages.
    """

    kind: str
    rows: Callable[[], QuerySet[Any]]  # returns the rows that should have a vector
    text: Expression | F  # the text to embed, as an expression on a row
    vectors: type[models.Model]
    vector_column: str
    has_vectors: Q
    index: Callable[[Mapping[UUID, str], embedding.Waiting], dict[UUID, Vectors]]

    @property
    def model(self) -> type[models.Model]:
        return self.rows().model

    def gaps(self, model: str) -> QuerySet[Any]:
        sha256 = Func(
            Func(self.text, template="convert_to(%(expressions)s, 'UTF8')"),
            function="sha256",
            output_field=models.BinaryField(),
        )
        is_current = Q(embedding_text_hash__isnull=False, embedding_text_hash=sha256, embedding_model=model)
        return self.rows().filter(~self.has_vectors | ~is_current)

    def unstamped(self, model: str) -> QuerySet[Any]:
        """Return the gaps that indexes find: rows without a hash, and those of another model.

        All gaps are among them unless something has gone wrong: who changes a text drops its hash.
        """
        is_other = Q(embedding_model__lt=model) | Q(embedding_model__gt=model)  # an index finds no row by <>
        return self.rows().filter(Q(embedding_text_hash__isnull=True) | is_other)


SOURCES: Registry[VectorSource] = Registry("vector sources")


def index(
    kind: str, texts: Mapping[UUID, str], waiting: embedding.Waiting = embedding.Waiting.CALLER
) -> dict[UUID, Vectors]:
    """Embed the texts of these units and save the vectors; return an array (passages, dimensions) for each saved unit.

    The vectors of a unit whose text has changed meanwhile are not saved. Raises EmbedderUnavailable if the embedder
    fails, or if the vector column has other dimensions than EMBEDDING_DIMENSIONS.
    """
    try:
        return SOURCES[kind].index(texts, waiting)
    except DataError as error:  # most likely the column's dimensions differ from EMBEDDING_DIMENSIONS
        raise embedding.EmbedderUnavailable(dimension_problem() or str(error)) from error


def index_memories(texts: Mapping[UUID, str], waiting: embedding.Waiting) -> dict[UUID, Vectors]:
    encoded, model = passages.encode(list(texts.values()), waiting=waiting)
    units = {pk: (text, part) for (pk, text), part in zip(texts.items(), encoded, strict=True)}
    return {pk: units[pk][1].vectors for pk in passages.store(units, model)}


def passage_source(
    kind: str, rows: Callable[[], QuerySet[Any]], text: Expression | F, table: type[models.Model], owner: str
) -> VectorSource:
    """Return a source that stores its passages in `table`, where the column `owner` refers to the row."""

    def index_rows(texts: Mapping[UUID, str], waiting: embedding.Waiting) -> dict[UUID, Vectors]:
        encoded, model = passages.encode(list(texts.values()), waiting=waiting)
        units = dict(zip(texts, encoded, strict=True))
        with transaction.atomic():
            for pk, content in texts.items():
                row = rows().alias(content_now=text).filter(pk=pk, content_now=content)
                if not row.update(**passages.stamp_of(content, model)):
                    del units[pk]  # meanwhile the text has changed, or the row no longer needs a vector
            table._default_manager.filter(**{f"{owner}__in": list(units)}).delete()
            prepared_statements.insert(passages.rows_of(table, owner, units))
        return {pk: part.vectors for pk, part in units.items()}

    has_passages = Exists(table._default_manager.filter(**{owner: OuterRef("pk")}))
    return VectorSource(kind, rows, text, table, "vector", has_vectors=Q(has_passages), index=index_rows)


MEMORIES = VectorSource(
    "memory",
    lambda: MemoryRecord.objects.exclude(status=Status.ARCHIVED),
    SPOKEN,
    vectors=Passage,
    vector_column="vector",
    has_vectors=Q(Exists(Passage.objects.filter(record=OuterRef("pk")))),
    index=index_memories,
)


def column_dimensions() -> dict[str, int]:
    """Return the dimensions of each table's vector column, by table, for the tables that exist."""
    columns = [(source.vectors._meta.db_table, source.vector_column) for source in SOURCES.values()]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname, a.atttypmod FROM unnest(%s::text[], %s::text[]) AS wanted(relation, name)"
            " JOIN pg_class c ON c.oid = to_regclass(wanted.relation)"
            " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = wanted.name",
            [[table for table, _ in columns], [column for _, column in columns]],
        )
        return dict(cursor.fetchall())


def dimension_problem() -> str:
    """Return which vector columns differ from EMBEDDING_DIMENSIONS and what the operator can do, or "" if none do."""
    sizes = column_dimensions()
    wrong = {table: dimensions for table, dimensions in sizes.items() if dimensions != settings.EMBEDDING_DIMENSIONS}
    if not wrong:
        return ""
    columns = ", ".join(f"{table} {dimensions}" for table, dimensions in sorted(wrong.items()))
    expected = settings.EMBEDDING_DIMENSIONS
    return (
        f"EMBEDDING_DIMENSIONS is {expected}, but tables have vectors with other dimensions: {columns}. "
        f"Run the command `embed --dimension {expected}`, or set EMBEDDING_DIMENSIONS back."
    )


# -- finding and closing gaps ----------------------------------------------------------------------------


def reconcile(model: str, *, within: tuple[UUID, UUID] | None = None, limit: int = 10_000) -> int:
    """Open jobs for gaps without an open job, at most `limit` of each kind; return how many.

    With `within`, the texts and passages of rows are only compared with their hashes if their keys are in this range.
    Gaps whose job failed within FAILED_PAUSE are skipped.
    """
    opened = 0
    for source in SOURCES.values():
        found = [source.gaps(model)]
        if within:
            found = [source.unstamped(model), found[0].filter(pk__gte=within[0], pk__lte=within[1])]
        for gaps in found:
            due = _without_job(source.kind, gaps)
            opened += enqueue(source.kind, due.values_list("pk", flat=True)[:limit], Trigger.RECONCILER)
    return opened


def _without_job(kind: str, gaps: QuerySet[Any]) -> QuerySet[Any]:
    jobs = IndexJob.objects.filter(source_kind=kind, source_id=models.OuterRef("pk"))
    is_open = jobs.filter(status__in=[JobStatus.PENDING, JobStatus.RUNNING])
    recently_failed = jobs.filter(status=JobStatus.FAILED, completed_at__gt=timezone.now() - FAILED_PAUSE)
    return gaps.exclude(models.Exists(is_open)).exclude(models.Exists(recently_failed))


def due_keys(now: datetime) -> tuple[UUID, UUID]:
    """Return the range of keys whose rows are compared at this time. Each key's turn comes once a day."""
    part = int(now.timestamp() // COMPARED_EVERY.total_seconds()) % PARTS
    size = 2**128 // PARTS
    last = 2**128 - 1 if part == PARTS - 1 else (part + 1) * size - 1
    return UUID(int=part * size), UUID(int=last)


def has_forgotten_memories() -> bool:
    """Return whether memories without any vector wait for no job, as after a killed `embed --all`.

    The index memory_no_vector makes this cheap. Neither a running `embed` nor a write that is just embedding its text
    counts.
    """
    if locks.is_locked(*EMBED_LOCK):
        return False
    unembedded = MEMORIES.rows().filter(embedding_text_hash=None, updated_at__lt=timezone.now() - WRITE_PAUSE)
    return _without_job(MEMORIES.kind, unembedded).exists()


# -- jobs ------------------------------------------------------------------------------------------------


def enqueue(kind: str, units: Iterable[UUID], trigger: Trigger) -> int:
    """Open a job for each unit that has no open job; return the number of all given units."""
    jobs = [IndexJob(source_kind=kind, source_id=unit, trigger_kind=trigger) for unit in units]
    prepared_statements.insert_missing(jobs)
    return len(jobs)


@contextmanager
def worker() -> Iterator[str]:
    """Yield a new name for a worker, which counts as running for the duration of the block."""
    pk = uuid4()
    with locks.exclusive("worker", pk, Conflict(gettext("another process is at work"))):
        yield f"{socket.gethostname()} {pk.hex}"


def reap() -> int:
    """Release running jobs that their workers have abandoned; return how many.

    A job is abandoned if its lease has expired, or if its worker holds the lease of its own name no longer.
    """
    running = IndexJob.objects.filter(status=JobStatus.RUNNING)
    names = list(running.values_list("worker_id", flat=True).distinct())
    is_abandoned = Q(worker_id__in=filter(_has_ended, names)) | Q(lease_expires_at__lt=timezone.now())
    return running.filter(is_abandoned).update(status=JobStatus.PENDING, worker_id="", lease_expires_at=None)


def _has_ended(name: str) -> bool:
    try:
        return not locks.is_locked("worker", UUID(name.rpartition(" ")[2]))
    except ValueError:  # a name of an earlier version
        return False


def due_jobs(kinds: Iterable[str] = ()) -> QuerySet[IndexJob]:
    """Return the jobs that may run now and that no worker has claimed.

    Without `kinds`, return jobs of all vector sources.
    """
    due = IndexJob.objects.filter(status=JobStatus.PENDING, next_run_at__lte=timezone.now())
    return due.filter(source_kind__in=list(kinds) or list(SOURCES))


def claim(worker: str, size: int = BATCH, kinds: Iterable[str] = ()) -> list[IndexJob]:
    """Claim up to `size` due jobs for this worker. Without `kinds`, claim jobs of all vector sources.

    Jobs that another worker is claiming at the same moment are skipped.
    """
    now = timezone.now()
    with transaction.atomic():
        due = due_jobs(kinds)
        jobs = list(due.select_for_update(skip_locked=True).order_by("next_run_at", "id")[:size])
        IndexJob.objects.filter(pk__in=[job.pk for job in jobs]).update(
            status=JobStatus.RUNNING,
            worker_id=worker,
            attempts=F("attempts") + 1,
            started_at=now,
            lease_expires_at=now + LEASE,
        )
    for job in jobs:
        job.attempts += 1
    return jobs


def run_batch(worker: str) -> tuple[int, int]:
    """Claim and run one batch of jobs; return how many succeeded, and how many were put back or failed."""
    jobs = claim(worker)
    completed = failed = 0
    for kind in {job.source_kind for job in jobs}:
        kind_jobs = [job for job in jobs if job.source_kind == kind]
        try:
            finished = _embed_units(kind, kind_jobs)
        except embedding.EmbedderUnavailable as error:
            put_back(worker, kind_jobs, str(error))
            failed += len(kind_jobs)
        else:
            close(worker, finished)
            completed += len(finished)
            # The write of the new text could not open a job, because this one was still open.
            changed = [job for job in kind_jobs if job not in finished]
            put_back(worker, changed, "the text changed while it was embedded")
            failed += len(changed)
    return completed, failed


def _embed_units(kind: str, jobs: list[IndexJob]) -> list[IndexJob]:
    """Embed the texts of these jobs. Returns the jobs that are done, which leaves out texts that changed meanwhile."""
    source = SOURCES[kind]
    rows = source.rows().filter(pk__in=[job.source_id for job in jobs])
    texts = dict(rows.values_list("pk", source.text))
    if not texts:
        return jobs
    saved = index(kind, texts, embedding.Waiting.BATCH)
    return [job for job in jobs if job.source_id in saved or job.source_id not in texts]


def close(worker: str, jobs: list[IndexJob]) -> None:
    """Mark these jobs as succeeded, unless another worker has taken them over."""
    now = timezone.now()
    IndexJob.objects.filter(pk__in=[job.pk for job in jobs], worker_id=worker).update(
        status=JobStatus.SUCCEEDED, completed_at=now, lease_expires_at=None, last_error=""
    )
    # A success also resolves earlier failures of the same unit.
    IndexJob.objects.filter(
        source_id__in=[job.source_id for job in jobs], status=JobStatus.FAILED, resolved_at__isnull=True
    ).update(resolved_at=now)


def put_back(worker: str, jobs: Iterable[IndexJob], error: str, attempts: int | None = None) -> None:
    """Reschedule jobs after an error, with a pause that doubles each time, or mark them as failed.

    A job has failed after `attempts` attempts (default MAX_ATTEMPTS). Jobs that another worker has taken over are
    left alone.
    """
    now = timezone.now()
    for job in jobs:
        row = IndexJob.objects.filter(pk=job.pk, worker_id=worker)
        if job.attempts >= (attempts or MAX_ATTEMPTS):
            row.update(status=JobStatus.FAILED, last_error=error, completed_at=now, lease_expires_at=None)
        else:
            later = now + timedelta(seconds=BACKOFF_BASE_S * 2**job.attempts)
            row.update(
                status=JobStatus.PENDING,
                last_error=error,
                next_run_at=later,
                worker_id="",
                lease_expires_at=None,
            )


def delete_closed_jobs() -> int:
    """Delete the jobs that were closed more than RETENTION ago, except unresolved failures; return how many.

    Leases of killed workers are deleted, too.
    """
    locks.delete_ended()
    old = IndexJob.objects.filter(completed_at__lt=timezone.now() - RETENTION)
    is_resolved = Q(status=JobStatus.SUCCEEDED) | Q(status=JobStatus.FAILED, resolved_at__isnull=False)
    return old.filter(is_resolved).delete()[0]
