"""The audit log and the vector index."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import django_filters
from django.db.models import QuerySet
from pydantic import Field
from typing_extensions import TypedDict

from foundation.operations.errors import Forbidden
from foundation.operations.fields import Text
from foundation.operations.operation import Operation
from foundation.operations.responses import response_of
from foundation.people.caller import Caller
from memories.models import IndexJob
from memories.models.index_job import JobStatus
from memories.retrieval import index_status
from memory_project.models import AuditEvent
from memory_project.rest.access import Access
from memory_project.rest.endpoints import Endpoint, route
from memory_project.rest.lists import Listing, each

TAG = "administration"
ADMINISTRATION: dict[str, Any] = {"access": Access.ADMINISTRATION}


class AuditResponse(TypedDict):
    id: str
    at: str
    email: str
    persona: str
    channel: str
    tool: str
    outcome: str
    code: str
    message: str
    duration_ms: float
    request_chars: int
    response_chars: int
    arguments: dict[str, Any]


class JobResponse(TypedDict):
    id: str
    kind: str
    source_id: str
    trigger: str
    status: str
    attempts: int
    last_error: str
    created_at: str
    completed_at: str | None


class CoverageResponse(TypedDict):
    kind: str
    state: str
    expected: int
    indexed: int
    open_jobs: int
    failures: int


class FailureResponse(TypedDict):
    kind: str
    cause: str
    count: int


class IndexResponse(TypedDict):
    model: str
    coverage: list[CoverageResponse]
    failures: list[FailureResponse]


class CountResponse(TypedDict):
    count: int


class AuditFilter(django_filters.FilterSet):
    email = django_filters.CharFilter()
    persona = django_filters.CharFilter()
    channel = django_filters.CharFilter()
    tool = django_filters.CharFilter()
    outcome = django_filters.ChoiceFilter(choices=AuditEvent.Outcome.choices)
    code = django_filters.CharFilter()
    after = django_filters.IsoDateTimeFilter("at", "gte")
    before = django_filters.IsoDateTimeFilter("at", "lte")


class JobFilter(django_filters.FilterSet):
    status = django_filters.ChoiceFilter(choices=JobStatus.choices)
    kind = django_filters.CharFilter("source_kind")


def _events(caller: Caller) -> QuerySet[AuditEvent]:
    return AuditEvent.objects.all() if caller.is_admin else AuditEvent.objects.filter(email=caller.email)


def _jobs(caller: Caller) -> QuerySet[IndexJob]:
    _require_operator(caller)
    return IndexJob.objects.all()


def _job_items(caller: Caller, rows: Sequence[IndexJob]) -> list[JobResponse]:
    return [response_of(JobResponse, row, kind=row.source_kind, trigger=row.trigger_kind) for row in rows]


class ShowIndex(Operation):
    """Show the state of the vector index"""


class RetryFailures(Operation):
    """Repeat the failed jobs of a kind that have the same cause"""

    kind: Annotated[str, Text(1, 40)]
    cause: Annotated[str, Text(0, 10_000)]


class DismissFailures(RetryFailures):
    """Mark the failed jobs of a kind with the same cause as resolved"""


class Reindex(Operation):
    """Embed all rows of a kind again"""

    kind: Annotated[str, Text(1, 40)] = Field(description="For example memory.")


def _index(caller: Caller, operation: ShowIndex) -> IndexResponse:
    _require_operator(caller)
    model = index_status.model()
    return {
        "model": model,
        "coverage": [response_of(CoverageResponse, row, state=row.verdict) for row in index_status.coverage(model)],
        "failures": [
            {"kind": row["source_kind"], "cause": row["last_error"], "count": row["n"]} for row in index_status.causes()
        ],
    }


def _retry(caller: Caller, operation: RetryFailures) -> CountResponse:
    return {"count": index_status.retry(caller, kind=operation.kind, cause=operation.cause)}


def _dismiss(caller: Caller, operation: DismissFailures) -> CountResponse:
    return {"count": index_status.dismiss(caller, kind=operation.kind, cause=operation.cause)}


def _reindex(caller: Caller, operation: Reindex) -> CountResponse:
    return {"count": index_status.reindex(caller, kind=operation.kind)}


def _require_operator(caller: Caller) -> None:
    if not caller.is_operator:
        raise Forbidden("only operators may see the index")


AUDIT = Listing(
    "list_audit_events",
    _events,
    each(partial(response_of, AuditResponse)),
    AuditResponse,
    AuditFilter,
    by="at",
    summary="List your calls; admins see all",
)
JOBS = Listing(
    "list_index_jobs", _jobs, _job_items, JobResponse, JobFilter, summary="List index jobs", **ADMINISTRATION
)
urlpatterns = [
    route(TAG, "audit/", get=AUDIT),
    route(TAG, "indexing/", get=Endpoint("show_index", _index, **ADMINISTRATION)),
    route(TAG, "indexing/jobs/", get=JOBS),
    route(TAG, "indexing/retry/", post=Endpoint("retry_failures", _retry, **ADMINISTRATION)),
    route(TAG, "indexing/dismiss/", post=Endpoint("dismiss_failures", _dismiss, **ADMINISTRATION)),
    route(TAG, "indexing/reindex/", post=Endpoint("reindex", _reindex, **ADMINISTRATION)),
]
