"""Base classes for the admin: read-only lists, estimated counts of large tables, and filters with a search field."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import flatten
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.shortcuts import redirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince

from memories.contract import list_export
from memories.identity.caller import Caller
from memories.identity.permissions import caller_from_request
from memories.queries import MAX_COUNT, capped_count


class EstimatedPaginator(Paginator[Any]):
    """A paginator that counts up to MAX_COUNT rows and estimates larger numbers with PostgreSQL's planner."""

    @cached_property
    def count(self) -> int:
        counted = capped_count(self.object_list)  # type: ignore[arg-type]  # the admin passes a queryset
        if counted <= MAX_COUNT:
            return counted
        return max(counted, planned_rows(self.object_list))  # type: ignore[arg-type]  # the admin passes a queryset


def planned_rows(rows: QuerySet[Any]) -> int:
    """Return the planner's estimate of the number of rows, without executing the query."""
    plan = json.loads(rows.order_by().explain(format="json"))
    return int(plan[0]["Plan"]["Plan Rows"])


class ExportsList(admin.ModelAdmin[Any]):
    """A list that can be downloaded as CSV or JSON lines, with the rows that its filters show."""

    # secrets, and addresses that contain one
    never_exported = frozenset(
        {"password", "digest", "code_digest", "secret", "secret_digest", "nonce", "previous_nonce", "url"}
    )

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        if list_export.is_wanted(request):
            return self.export(request)
        return super().changelist_view(request, {"exports": list_export.MEDIA_TYPES, **(extra_context or {})})

    def export(self, request: HttpRequest) -> Any:
        if not self.has_view_permission(request):
            raise PermissionDenied
        asked, params = request.GET, request.GET.copy()
        params.pop(list_export.PARAMETER)
        request.GET = params  # type: ignore[assignment]  # the list refuses parameters that are no filters
        try:
            rows = self.get_changelist_instance(request).get_queryset(request)
        except IncorrectLookupParameters:
            return redirect(f"{request.path}?e=1")
        request.GET = asked
        columns = {name: name for name in self.exported_columns(request)}
        return list_export.download(request, admin_caller(request), rows, columns, name=self.opts.model_name or "list")

    def exported_columns(self, request: HttpRequest) -> list[str]:
        """Return the key and those columns that the list shows, if they are columns of the table."""
        shown = {self.opts.pk.name, *self.shown_names(request)} - self.never_exported
        return [field.name for field in self.opts.concrete_fields if field.name in shown]

    def shown_names(self, request: HttpRequest) -> Sequence[str]:
        return [str(name) for name in self.get_list_display(request)]


class ReadOnlyAdmin(ExportsList):
    """Admin of rows that only services write. Users can't add, edit or delete rows here."""

    show_full_result_count = False
    show_facets = admin.ShowFacets.ALLOW
    list_per_page = 50
    paginator = EstimatedPaginator
    view_page = ""  # the page name under which users save views of the list
    presets: tuple[tuple[str, str], ...] = ()  # links to frequently used filters: title and query string

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def shown_names(self, request: HttpRequest) -> Sequence[str]:
        details = [str(name) for name in flatten(self.get_fields(request))]
        return [*super().shown_names(request), *details]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        title = str(self.model._meta.verbose_name_plural).capitalize()
        extra = {"title": title, "presets": self.presets, "view_page": self.view_page, **(extra_context or {})}
        return super().changelist_view(request, extra)


class AdminsOnly(ReadOnlyAdmin):
    """Rows about the memories of all users. Only admins (superusers) may see them."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)


class OperatorsOnly(ReadOnlyAdmin):
    """Rows about the operation of the installation. Only operators and admins may see them."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.is_authenticated and admin_caller(request).is_operator

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)


class PickFilter(admin.SimpleListFilter):
    """A filter with a search field instead of a list of all values, which would be too long."""

    template = "admin/pick_filter.html"
    kind = ""  # kind of the values that the search field finds: entity, person or tag
    column = ""

    def __init__(self, request: HttpRequest, params: dict[str, Any], *args: Any) -> None:
        self.other_params = [
            (key, value) for key, values in request.GET.lists() for value in values
            if key not in (self.parameter_name, "p")
        ]  # fmt: skip
        super().__init__(request, params, *args)

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("", "")]

    def has_output(self) -> bool:
        return True

    def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        value = (self.value() or "").strip()
        if not value or "\x00" in value:
            return rows
        return rows.filter(**{self.column: [value] if self.column.endswith("__contains") else value})

    def get_facet_counts(self, pk_attname: str, filtered_qs: QuerySet[Any]) -> dict[str, Any]:
        return {}

    def choices(self, changelist: Any) -> list[dict[str, Any]]:  # type: ignore[override]  # a single entry, the typed value
        return [{"selected": bool(self.value()), "query_string": "", "display": self.value() or ""}]


def admin_caller(request: HttpRequest) -> Caller:
    return caller_from_request(request, channel="admin")


def entity_names(urns: list[str]) -> str:
    """Return the readable parts of the first three URNs, for example `sales.orders` for a data set."""
    names = [urn.split(",")[1] if "," in urn else urn.rsplit(":", 1)[-1] for urn in urns[:3]]
    return ", ".join(names) + (", …" if len(urns) > len(names) else "")


def badge(state: str, label: str = "") -> SafeString:
    return format_html('<span class="badge {}">{}</span>', state, label or state)


def stacked(first: Any, second: str) -> SafeString:
    """Return two texts for one column, the second in small print below the first."""
    return format_html('{} <span class="small-line">{}</span>', first, second)


def age(at: Any) -> str:
    return f"{timesince(at, depth=1)} ago" if at else "–"
