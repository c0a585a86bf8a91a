"""Subscriptions to sources: folders and repositories that are kept in step with memories."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from typing_extensions import TypedDict

from foundation.operations.fields import Id
from foundation.operations.operation import Operation
from foundation.operations.responses import response_of
from foundation.people.caller import Caller
from memory_project.exchange.subscriptions import services
from memory_project.exchange.subscriptions.models import Subscription, SubscriptionRun
from memory_project.exchange.subscriptions.operations import (
    AddSubscription,
    ChangeSubscription,
    RemoveSubscription,
    RunSubscription,
)
from memory_project.rest.access import Access
from memory_project.rest.endpoints import Endpoint, route
from memory_project.rest.lists import Listing, each

TAG = "subscriptions"
ADMINISTRATION: dict[str, Any] = {"access": Access.ADMINISTRATION}


class SubscriptionResponse(TypedDict):
    id: str
    name: str
    kind: str
    location: str
    branch: str
    subfolder: str
    persona: str
    visibility: str
    interval_min: int
    is_paused: bool
    created_by: str
    created_at: str
    next_run_at: str


class RunResponse(TypedDict):
    id: str
    state: str
    is_plan: bool
    started_by: str
    started_at: str
    finished_at: str | None
    version: str
    counts: dict[str, int]
    missing_files: int
    done: int
    total: int
    report: list[Any]
    error: str


class RemovedResponse(TypedDict):
    forgotten: int


class ShowSubscription(Operation):
    """Show a subscription"""

    subscription_id: Id


def _response(row: Subscription) -> SubscriptionResponse:
    return response_of(SubscriptionResponse, row)


def _run_response(run: SubscriptionRun) -> RunResponse:
    return response_of(RunResponse, run)


def _runs(caller: Caller, subscription_id: UUID) -> QuerySet[SubscriptionRun]:
    return SubscriptionRun.objects.filter(subscription=services.get(caller, subscription_id))


def _show(caller: Caller, operation: ShowSubscription) -> SubscriptionResponse:
    return _response(services.get(caller, operation.subscription_id))


def _add(caller: Caller, operation: AddSubscription) -> SubscriptionResponse:
    return _response(services.add(caller, operation))


def _change(caller: Caller, operation: ChangeSubscription) -> SubscriptionResponse:
    return _response(services.change(caller, operation))


def _run(caller: Caller, operation: RunSubscription) -> RunResponse:
    return _run_response(services.start(caller, operation))


def _remove(caller: Caller, operation: RemoveSubscription) -> RemovedResponse:
    return {"forgotten": services.remove(caller, operation)}


LIST = Listing(
    "list_subscriptions",
    services.visible_to,
    each(_response),
    SubscriptionResponse,
    summary="List subscriptions",
    **ADMINISTRATION,
)
RUNS = Listing(
    "list_runs",
    _runs,
    each(_run_response),
    RunResponse,
    by="started_at",
    summary="List the runs of a subscription",
    **ADMINISTRATION,
)
ONE = "subscriptions/<id:subscription_id>/"

urlpatterns = [
    route(TAG, "subscriptions/", get=LIST, post=Endpoint("add_subscription", _add, status=201, **ADMINISTRATION)),
    route(
        TAG,
        ONE,
        get=Endpoint("show_subscription", _show, **ADMINISTRATION),
        patch=Endpoint("change_subscription", _change, **ADMINISTRATION),
        delete=Endpoint("remove_subscription", _remove, **ADMINISTRATION),
    ),
    route(TAG, f"{ONE}runs/", get=RUNS, post=Endpoint("run_subscription", _run, status=202, **ADMINISTRATION)),
]
