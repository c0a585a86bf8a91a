"""State of the vector index for its admin page: coverage, throughput, failures by cause, and actions on failures."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.core.cache import caches
from django.db.models import Avg, Count, F, Max, Min, Q, Value
from django.db.models.functions import TruncMinute
from django.utils import timezone
from django.utils.translation import gettext

from foundation import embedding
from foundation.database import identity
from foundation.operations.errors import Forbidden, check_choice
from foundation.people.caller import Caller
from memories.models import IndexJob, MemoryRecord
from memories.models.index_job import JobStatus, Trigger
from memories.retrieval.indexing import SOURCES, VectorSource, enqueue

OPEN = Q(status__in=[JobStatus.PENDING, JobStatus.RUNNING])
UNRESOLVED = Q(status=JobStatus.FAILED, resolved_at__isnull=True)
CAUSES_SHOWN = 20
THROUGHPUT_MIN = 60
COUNTS_KEY = "index-coverage"
PARTS = ("expected", "indexed")


@dataclass(frozen=True)
class Coverage:
    kind: str
    expected: int
    indexed: int
    open_jobs: int
    failures: int

    @property
    def verdict(self) -> str:
        if self.open_jobs:
            return "indexing"
        return "degraded" if self.failures or self.indexed < self.expected else "healthy"

    @property
    def good(self) -> int:
        """The smaller of two numbers: rows with a current vector, and rows without an open job. At least 0."""
        return max(min(self.indexed, self.expected - self.open_jobs), 0)

    @property
    def share(self) -> float:
        return self.good / self.expected if self.expected else 1.0


@identity.service("operation")
def coverage(model: str, *, kept_s: int = 0) -> list[Coverage]:
    """Return the coverage of each kind of row: how many should have a vector, and how many have one of this model.

    With `kept_s`, these numbers may have been counted so many seconds ago, because counting takes a second with a
    million rows. The numbers of jobs are always current.
    """
    jobs = {
        row["source_kind"]: row
        for row in IndexJob.objects.filter(OPEN | UNRESOLVED)
        .order_by()
        .values("source_kind")
        .annotate(open=Count("pk", filter=OPEN), failed=Count("pk", filter=UNRESOLVED))
    }
    key = f"{COUNTS_KEY}-{hashlib.sha256(model.encode()).hexdigest()}"
    counts = caches["process"].get(key) if kept_s else None
    if counts is None:
        counts = _counts(model)
        if kept_s:
            caches["process"].set(key, counts, kept_s)
    coverages = []
    for kind in sorted(SOURCES):
        row = jobs.get(kind)
        open_jobs, failures = (row["open"], row["failed"]) if row else (0, 0)
        expected, indexed = (counts.get((kind, part), 0) for part in PARTS)
        coverages.append(Coverage(kind, expected, indexed, open_jobs=open_jobs, failures=failures))
    return coverages


def remaining(model: str) -> tuple[int, int]:
    """Return how many rows have no vector of this model yet, and how many should have one."""
    rows = coverage(model)
    return sum(max(row.expected - row.indexed, 0) for row in rows), sum(row.expected for row in rows)


def _counts(model: str) -> dict[tuple[str, str], int]:
    """Return the number of rows by kind and part."""
    parts = [part for kind, source in sorted(SOURCES.items()) for part in _row_counts(kind, source, model)]
    return {(row["source_kind"], row["part"]): row["rows"] for row in parts[0].union(*parts[1:], all=True)}


def _row_counts(kind: str, source: VectorSource, model: str) -> list[Any]:
    """Return a query for each of PARTS.

    The second is no conditional count of the first, because PostgreSQL can then join the rows with their vectors, in
    place of one search for each row.
    """
    rows = source.rows().order_by()
    good = rows.filter(source.has_vectors, embedding_text_hash__isnull=False, embedding_model=model)
    return [
        part_rows.annotate(source_kind=Value(kind), part=Value(part))
        .values("source_kind", "part")
        .annotate(rows=Count("pk"))
        for part, part_rows in zip(PARTS, (rows, good), strict=True)
    ]


@identity.service("operation")
def model() -> str:
    """Return the name of the embedding model.

    While no model is ready, return the one that embedded the newest embedded memory, or "" if no memory is embedded.
    """
    state = embedding.state()
    if state["state"] == "ready":
        return state["detail"]
    embedded = MemoryRecord.objects.exclude(embedding_model="").order_by("-created_at", "id")
    return embedded.values_list("embedding_model", flat=True).first() or ""


def throughput() -> tuple[list[tuple[Any, int]], dict[str, Any]]:
    """Return the number of jobs that succeeded in each of the last THROUGHPUT_MIN minutes, and average durations in s.

    The durations are `worked`, from start to end of a job, and `waited`, from its creation to its start. Both are None
    if no job succeeded.
    """
    since = timezone.now() - timedelta(minutes=THROUGHPUT_MIN)
    jobs = IndexJob.objects.filter(status=JobStatus.SUCCEEDED, completed_at__gte=since).order_by()
    slots = dict(jobs.annotate(slot=TruncMinute("completed_at")).values_list("slot").annotate(n=Count("pk")))
    first = since.replace(second=0, microsecond=0)
    points = [
        (first + timedelta(minutes=n), slots.get(first + timedelta(minutes=n), 0)) for n in range(THROUGHPUT_MIN + 1)
    ]
    durations = jobs.aggregate(
        worked=Avg(F("completed_at") - F("started_at")), waited=Avg(F("started_at") - F("created_at"))
    )
    return points, {name: value.total_seconds() if value else None for name, value in durations.items()}


def causes() -> list[dict[str, Any]]:
    """Count unresolved failures by kind and cause. Return the CAUSES_SHOWN most frequent, the most frequent first."""
    failed = IndexJob.objects.filter(UNRESOLVED).order_by().values("source_kind", "last_error")
    grouped = failed.annotate(n=Count("pk"), first=Min("completed_at"), last=Max("completed_at"))
    return [dict(row) for row in grouped.order_by("-n", "last_error")[:CAUSES_SHOWN]]


# -- actions of operators ------------------------------------------------------------------------------------


@identity.service("operation")
def retry(caller: Caller, *, kind: str, cause: str) -> int:
    failed = _failed(caller, kind, cause)
    units = list(failed.values_list("source_id", flat=True))
    count = enqueue(kind, units, Trigger.MANUAL_RETRY)
    failed.update(resolved_at=timezone.now())
    return count


def dismiss(caller: Caller, *, kind: str, cause: str) -> int:
    """Mark the failures of this kind with this cause as resolved, without a retry; return how many."""
    dismissed: int = _failed(caller, kind, cause).update(resolved_at=timezone.now())
    return dismissed


@identity.service("operation")
def reindex(caller: Caller, *, kind: str) -> int:
    check_reindex(caller, kind=kind)
    units: list[UUID] = list(SOURCES[kind].rows().values_list("pk", flat=True))
    return enqueue(kind, units, Trigger.MANUAL_RETRY)


def check_reindex(caller: Caller, *, kind: str) -> None:
    """Check permission and kind as `reindex` does, so that a page can do so before it queues the work for a worker."""
    _require_operator(caller)
    check_choice("kind", kind, SOURCES)


def _failed(caller: Caller, kind: str, cause: str) -> Any:
    _require_operator(caller)
    check_choice("kind", kind, SOURCES)
    return IndexJob.objects.filter(UNRESOLVED, source_kind=kind, last_error=cause)


def _require_operator(caller: Caller) -> None:
    if not caller.is_operator:
        raise Forbidden(gettext("only operators can manage the index"))
