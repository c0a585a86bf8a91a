"""Periods on which memories may depend: a list for everyone, and the verbs of admins."""

from __future__ import annotations

import django_filters
from django.db.models import QuerySet
from typing_extensions import TypedDict

from foundation.operations.responses import response_of
from foundation.people.caller import Caller
from memories.models import Period
from memories.operations import EndPeriod, OpenPeriod, ReopenPeriod
from memories.writing import periods
from memory_project.rest.access import Access
from memory_project.rest.endpoints import Endpoint, route
from memory_project.rest.lists import Listing, each

TAG = "memories"


class PeriodResponse(TypedDict):
    name: str
    note: str
    opened_at: str
    opened_by: str
    ended_at: str | None
    ended_by: str


class ChangedPeriodResponse(TypedDict):
    """`memories` is the number of memories whose validity has changed."""

    period: PeriodResponse
    memories: int


class PeriodFilter(django_filters.FilterSet):
    name = django_filters.CharFilter()
    is_open = django_filters.BooleanFilter("ended_at", "isnull")


def _rows(caller: Caller) -> QuerySet[Period]:
    return Period.objects.all()


def _response(row: Period) -> PeriodResponse:
    return response_of(PeriodResponse, row)


def _open(caller: Caller, operation: OpenPeriod) -> PeriodResponse:
    return _response(periods.open_period(caller, operation))


def _end(caller: Caller, operation: EndPeriod) -> ChangedPeriodResponse:
    period, count = periods.end_period(caller, operation)
    return {"period": _response(period), "memories": count}


def _reopen(caller: Caller, operation: ReopenPeriod) -> ChangedPeriodResponse:
    period, count = periods.reopen_period(caller, operation)
    return {"period": _response(period), "memories": count}


LIST = Listing(
    "list_periods", _rows, each(_response), PeriodResponse, PeriodFilter, by="opened_at", summary="List periods"
)
urlpatterns = [
    route(TAG, "periods/", get=LIST, post=Endpoint("open_period", _open, status=201, access=Access.ADMINISTRATION)),
    route(TAG, "periods/end/", post=Endpoint("end_period", _end, access=Access.ADMINISTRATION)),
    route(TAG, "periods/reopen/", post=Endpoint("reopen_period", _reopen, access=Access.ADMINISTRATION)),
]
