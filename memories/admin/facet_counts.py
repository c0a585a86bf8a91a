"""Counts beside the filters of a list in the admin.

Django counts the rows of each filter with a query of its own, over all rows of the list. Here, one query counts for all
filters that are not in use, and one for each that is: such a filter is left out of the rows that are counted for it.
Only the first MAX_COUNTED rows in the list's order are counted, so the time does not grow with the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.contrib.admin.views.main import ChangeList
from django.db.models import Aggregate
from django.http import HttpRequest

MAX_COUNTED = 5_000


class FacetCounts:
    """The counts for all filters of a list, computed when the first filter is rendered."""

    def __init__(self, changelist: ChangeList, request: HttpRequest) -> None:
        self.changelist = changelist
        self.request = request
        self.counts: dict[int, dict[str, Any]] = {}
        for spec in changelist.filter_specs:
            if hasattr(spec, "get_facet_queryset"):
                spec.get_facet_queryset = partial(self.counts_of, spec)

    def counts_of(self, spec: Any, changelist: ChangeList) -> dict[str, Any]:
        """Return what Django's `get_facet_queryset` returns: counts by the names of `get_facet_counts`."""
        if id(spec) not in self.counts:
            used = self._used_parameters(spec)
            same = [other for other in self._specs() if self._used_parameters(other) == used]
            self.counts.update(self._count(same, used))
        return self.counts[id(spec)]

    def _specs(self) -> list[Any]:
        return [spec for spec in self.changelist.filter_specs if hasattr(spec, "get_facet_counts")]

    def _used_parameters(self, spec: Any) -> tuple[str, ...]:
        given = {**self.changelist.params, **self.changelist.filter_params}
        return tuple(name for name in spec.expected_parameters() or () if name in given)

    def _count(self, specs: Sequence[Any], used: tuple[str, ...]) -> dict[int, dict[str, Any]]:
        changelist = self.changelist
        rows = changelist.queryset
        if used:
            rows = changelist.get_queryset(self.request, exclude_parameters=list(used))
        counted = changelist.model._base_manager.filter(pk__in=rows.values("pk")[:MAX_COUNTED])
        wanted: dict[str, Aggregate] = {}
        for index, spec in enumerate(specs):
            for name, count in spec.get_facet_counts(changelist.pk_attname, counted).items():
                wanted[f"{index}_{name}"] = count
        values = counted.aggregate(**wanted) if wanted else {}
        found: dict[int, dict[str, Any]] = {id(spec): {} for spec in specs}
        for key, value in values.items():
            number, name = key.split("_", 1)
            found[id(specs[int(number)])][name] = value
        return found
