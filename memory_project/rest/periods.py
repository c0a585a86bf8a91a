"""Periods on which memories may depend: a list for everyone, and the verbs of admins."""

from __future__ import annotations

from collections.abc import Sequence

import django_filters
from django.db.models import QuerySet
from typing_extensions import TypedDict

from foundation.people.caller import Caller
from memories.models import Period
from memories.operations import EndPeriod, OpenPeriod, ReopenPeriod
from memories.writing import periods
from memory_project.rest.access import Access
from memory_project.rest.endpoints import Endpoint, route
from memory_project.rest.lists import Listing

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


def _items(caller: Caller, rows: Sequence[Period]) -> list[PeriodResponse]:
    return [_response(row) for row in rows]


def _response(row: Period) -> PeriodResponse:
    return {
        "name": row.name,
        "note": row.note,
        "opened_at": row.opened_at.isoformat(),
        "opened_by": row.opened_by,
        "ended_at": row.ended_at.isoformat() if row.ended_at else None,
        "ended_by": row.ended_by,
    }


def _open(caller: Caller, operation: OpenPeriod) -> PeriodResponse:
    return _response(periods.open_period(caller, operation))


def _end(caller: Caller, operation: EndPeriod) -> ChangedPeriodResponse:
    period, count = periods.end_period(caller, operation)
    return {"period": _response(period), "memories": count}


def _reopen(caller: Caller, operation: ReopenPeriod) -> ChangedPeriodResponse:
    period, count = periods.reopen_period(caller, operation)
    return {"period": _response(period), "memories": count}


LIST = Listing("list_periods", _rows, _items, PeriodResponse, PeriodFilter, by="opened_at", summary="List periods")
urlpatterns = [
    route(TAG, "periods/", get=LIST, post=Endpoint("open_period", _open, status=201, access=Access.ADMINISTRATION)),
    route(TAG, "periods/end/", post=Endpoint("end_period", _end, access=Access.ADMINISTRATION)),
    route(TAG, "periods/reopen/", post=Endpoint("reopen_period", _reopen, access=Access.ADMINISTRATION)),
]
