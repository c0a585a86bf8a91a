"""Lists of the admin: exact or estimated counts, columns that people choose, links to periods, and exports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import flatten_fieldsets, label_for_field
from django.contrib.admin.views.main import SEARCH_VAR, ChangeList
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.text import capfirst
from django.utils.translation import gettext

from foundation.downloads import list_export
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from memories import page_settings
from memories.admin.dates import date_links
from memories.admin.facet_counts import MAX_COUNTED, FacetCounts
from memories.queries import MAX_COUNT, capped_count

MAX_FOUND = 1_000  # maximum number of rows that a search remembers
CHOOSE_COLUMNS = "choose-columns"  # name of the button


def admin_caller(request: HttpRequest) -> Caller:
    return caller_from_request(request, channel="admin")


class EstimatedPaginator(Paginator[Any]):
    """A paginator that counts up to `max_count` rows and estimates larger numbers with PostgreSQL's planner."""

    max_count = MAX_COUNT

    @cached_property
    def count(self) -> int:
        # Without the annotations of columns, which the database would compute for each counted row.
        rows: QuerySet[Any] = self.object_list.order_by().values("pk")  # type: ignore[attr-defined]  # it is a queryset
        counted = capped_count(rows, self.max_count)
        return counted if counted <= self.max_count else max(counted, planned_rows(rows))

    @property
    def is_estimated(self) -> bool:
        return self.count > self.max_count

    def page(self, number: int | str) -> Any:
        """Return a page whose rows are read by their keys.

        For a late page, the database would otherwise compute the annotations of columns for all rows before it.
        """
        page: Any = super().page(number)
        rows: Any = self.object_list
        page.object_list = rows.filter(pk__in=page.object_list.values("pk"))
        return page


def planned_rows(rows: QuerySet[Any]) -> int:
    """Return the planner's estimate of the number of rows, without executing the query."""
    plan = json.loads(rows.order_by().explain(format="json"))
    return int(plan[0]["Plan"]["Plan Rows"])


class RowList(ChangeList):
    """Django's list, plus links to periods and counts of filters that need no query for each.

    It also tells whether the number of rows is an estimate.
    """

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(request, *args, **kwargs)
        if self.add_facets:
            FacetCounts(self, request)

    def get_filters(self, request: HttpRequest) -> Any:
        try:
            return super().get_filters(request)
        except (ValueError, OverflowError) as error:  # Django computes the end of the year 9999
            raise IncorrectLookupParameters(error) from error

    @property
    def counted_rows(self) -> int:
        """Return the number of rows that the counts beside the filters are about, or 0 if they are about all rows."""
        return MAX_COUNTED if self.add_facets and self.result_count > MAX_COUNTED else 0

    @property
    def is_estimated(self) -> bool:
        return bool(getattr(self.paginator, "is_estimated", False))

    @property
    def shown_count(self) -> int:
        """Return the number of rows, an estimate rounded to three digits."""
        count = int(self.result_count)
        return round(count, 3 - len(str(count))) if self.is_estimated else count

    def date_links(self) -> Sequence[Mapping[str, Any]]:
        field = self.date_hierarchy
        if not isinstance(field, str):
            return []
        links = date_links(self.root_queryset, field, {name: str(value) for name, value in self.params.items()})
        parts = [f"{field}__{part}" for part in ("year", "month", "day")]
        return [
            {
                "title": link.title,
                "address": self.get_query_string(dict(link.params), parts),
                "current": link.is_current,
            }
            for link in links
        ]

    def all_dates_address(self) -> str:
        field = self.date_hierarchy
        given = [f"{field}__{part}" for part in ("year", "month", "day") if f"{field}__{part}" in self.params]
        return self.get_query_string(remove=given) if given else ""


class ListPage(admin.ModelAdmin[Any]):
    """A list with columns that each person chooses. It exports the rows that its filters show, as CSV or JSON lines."""

    # secrets, and addresses that contain one
    never_exported = frozenset(
        {"password", "digest", "code_digest", "secret", "secret_digest", "nonce", "previous_nonce", "url"}
    )
    show_full_result_count = False
    list_per_page = 50
    paginator = EstimatedPaginator
    more_columns: tuple[str, ...] = ()  # methods that people may add as columns
    presets: tuple[tuple[Any, str], ...] = ()  # links to frequently used filters: title and query string

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return RowList

    def get_paginator(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        paginator: Any = super().get_paginator(request, *args, **kwargs)
        if request.GET.get(SEARCH_VAR):  # the text of each row is read to count it
            paginator.max_count = MAX_FOUND
        return paginator

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        found, may_repeat = self.matches(request, queryset, search_term)
        if not search_term or may_repeat:
            return found, may_repeat
        # The text of every row is read to find a rare word. Counting and listing would each do it again.
        keys = list(found.order_by().values_list("pk", flat=True)[: MAX_FOUND + 1])
        return found if len(keys) > MAX_FOUND else queryset.filter(pk__in=keys), False

    def matches(self, request: HttpRequest, queryset: QuerySet[Any], search_term: str) -> tuple[QuerySet[Any], bool]:
        """Return the rows that a search finds, and whether one may be among them twice."""
        return super().get_search_results(request, queryset, search_term)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        if list_export.is_wanted(request):
            return self.export(request)
        if request.method == "POST" and CHOOSE_COLUMNS in request.POST:
            return self.choose_columns(request)
        shown = self.get_list_display(request)
        extra = {
            "title": self.table_title(),
            "exports": list_export.MEDIA_TYPES,
            "presets": self.presets,
            "view_page": f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist",
            "choose_columns": CHOOSE_COLUMNS,
            "offered_columns": [
                (name, self.column_title(name), name in shown) for name in self.offered_columns(request)
            ],
            **(extra_context or {}),
        }
        return super().changelist_view(request, extra)

    def table_title(self) -> str:
        titles: Mapping[str, Any] = getattr(self.admin_site, "table_titles", {})
        return str(titles.get(self.opts.label_lower) or capfirst(str(self.opts.verbose_name_plural)))

    # -- columns -------------------------------------------------------------------------------------------------

    @property
    def _columns_key(self) -> str:
        return f"columns {self.opts.label_lower}"

    def usual_columns(self, request: HttpRequest) -> list[Any]:
        hidden = {*(self.get_exclude(request) or ()), *self.never_exported}
        return [name for name in super().get_list_display(request) if name not in hidden]

    def offered_columns(self, request: HttpRequest) -> list[str]:
        """Return the usual columns, and the table's other columns of which the page of a row shows the values."""
        usual = [name for name in self.usual_columns(request) if isinstance(name, str)]
        if not usual:  # made for the request, so they can't be chosen by name
            return []
        hidden = {*(self.get_exclude(request) or ()), *self.never_exported, *usual}
        details = set(flatten_fieldsets(self.get_fieldsets(request)))
        stored = [
            field.name
            for field in self.opts.concrete_fields
            if field.name in details - hidden and not field.is_relation
        ]
        return [*usual, *(name for name in self.more_columns if name not in usual), *stored]

    def get_list_display(self, request: HttpRequest) -> Any:
        cached: dict[str, Any] = request.__dict__.setdefault("_list_columns", {})
        if self.opts.label_lower not in cached:
            offered = self.offered_columns(request)
            chosen = page_settings.load(admin_caller(request), self._columns_key) if offered else None
            # A version of the program may have dropped a column that was chosen.
            kept = [name for name in offered if name in chosen] if isinstance(chosen, list) else []
            cached[self.opts.label_lower] = kept or self.usual_columns(request)
        return cached[self.opts.label_lower]

    def choose_columns(self, request: HttpRequest) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        offered = self.offered_columns(request)
        asked = request.POST.getlist("column")
        names = [name for name in offered if name in asked]
        if request.POST[CHOOSE_COLUMNS] == "reset":
            page_settings.remove(admin_caller(request), self._columns_key)
        elif not names:
            messages.error(request, gettext("Choose at least one column."))
        else:
            page_settings.save(admin_caller(request), self._columns_key, names)
        return redirect(request.get_full_path())

    def column_title(self, name: str) -> str:
        return capfirst(str(label_for_field(name, self.model, self)))

    # -- export --------------------------------------------------------------------------------------------------

    def export(self, request: HttpRequest) -> Any:
        if not self.has_view_permission(request):
            raise PermissionDenied
        asked = request.GET
        params = request.GET.copy()
        params.pop(list_export.PARAMETER)
        request.GET = params  # type: ignore[assignment]  # the list refuses parameters that are no filters
        try:
            rows = self.get_changelist_instance(request).get_queryset(request)
        except IncorrectLookupParameters:
            return redirect(f"{request.path}?{urlencode({'e': 1})}")
        request.GET = asked
        exported = {name: name for name in self.exported_columns(request)}
        return list_export.download(request, admin_caller(request), rows, exported, name=self.opts.model_name or "list")

    def exported_columns(self, request: HttpRequest) -> list[str]:
        """Return the key and those columns that the list shows, if they are columns of the table."""
        shown = {self.opts.pk.name, *self.shown_names(request)} - self.never_exported
        return [field.name for field in self.opts.concrete_fields if field.name in shown]

    def shown_names(self, request: HttpRequest) -> Sequence[str]:
        return [str(name) for name in self.get_list_display(request)]
