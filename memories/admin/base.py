"""Base classes of the admin, filters with a search field, and the texts of columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import flatten
from django.contrib.auth import get_user_model
from django.db.models import Count, F, Func, OuterRef, Q, QuerySet, Subquery, TextField, Value
from django.http import HttpRequest
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from django.utils.translation import gettext, gettext_lazy

from foundation.people.models import Persona
from memories.admin.lists import ListPage, admin_caller
from memories.admin.rows import RowPage

EMPTY: tuple[Any, ...] = ("", None, [], {})  # values of fields that a page lists at its end
MAX_PEOPLE = 50  # maximum number of people whose rows a search for a name finds
# A name as lists show it, such as sales.orders. Other words are searched in the text alone.
ENTITY_NAME = re.compile(r"[\w-]+(\.[\w-]+)+")
__all__ = ["ListPage", "RowPage", "admin_caller"]


class ExportsList(RowPage, ListPage):
    """Admin of rows that forms of Django edit. Each list can be exported."""


class ReadOnlyAdmin(ExportsList):
    """Admin of rows that only services write. Users can't add, edit or delete rows here."""

    show_facets = admin.ShowFacets.ALLOW

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields of the page, without those that the row leaves empty: those are listed at the end."""
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None or len(fieldsets) < 2:
            return fieldsets
        (title, shown), *others = fieldsets
        empty = {name for name in shown["fields"] if getattr(obj, str(name), True) in EMPTY}
        kept = [name for name in shown["fields"] if name not in empty]
        rest = [name for name in shown["fields"] if name in empty]
        heading, folded = others[-1]
        return [
            (title, {**shown, "fields": kept}),
            *others[:-1],
            (heading, {**folded, "fields": [*folded["fields"], *rest]}),
        ]

    def shown_names(self, request: HttpRequest) -> Sequence[str]:
        details = [str(name) for name in flatten(self.get_fields(request))]
        return [*super().shown_names(request), *details]


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


class NameSearch(ExportsList):
    """A list that is searched by what its rows show: words of the text, names of people, and names of entities."""

    owner_column = ""
    entities_column = ""

    def matches(self, request: HttpRequest, queryset: QuerySet[Any], search_term: str) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        if term.startswith("urn:li:"):
            return queryset.filter(**{f"{self.entities_column}__contains": [term]}), False
        is_name = bool(ENTITY_NAME.fullmatch(term))
        if is_name:
            urns = Func(F(self.entities_column), Value(" "), function="array_to_string", output_field=TextField())
            queryset = queryset.alias(urns_text=urns)
        found, has_duplicates = super().matches(request, queryset, search_term)
        if not term:
            return found, has_duplicates
        if is_name:
            found |= queryset.filter(urns_text__icontains=term)
        # The start of an address, because its end is that of all colleagues.
        people = get_user_model()._default_manager.filter(Q(name__icontains=term) | Q(email__istartswith=term))
        # Looked up first, because the planner can't estimate the rows of an unknown list of people.
        if emails := list(people.order_by("email").values_list("email", flat=True)[:MAX_PEOPLE]):
            found |= queryset.filter(**{f"{self.owner_column}__in": emails})
        return found, has_duplicates


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


class ConditionFilter(admin.SimpleListFilter):
    """A filter with a fixed condition for each of its values."""

    def condition(self, value: str) -> Q | None:
        """Return the condition for a value, or None for an unknown value, which filters nothing."""
        raise NotImplementedError

    def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        rule = self.condition(value) if value else None
        return rows if rule is None else rows.filter(rule)

    def get_facet_counts(self, pk_attname: str, filtered_qs: QuerySet[Any]) -> dict[str, Any]:
        # Django would look for each row among the rows of each value.
        rules = {f"{n}__c": self.condition(str(value)) for n, (value, _) in enumerate(self.lookup_choices)}
        return {name: Count(pk_attname, filter=rule) for name, rule in rules.items()}


class PersonaFilter(ConditionFilter):
    """The personas by name. Django would read all rows of the table to find the values of the column."""

    title = gettext_lazy("persona")
    parameter_name = "persona"
    column = "persona"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(persona.name, str(persona)) for persona in Persona.objects.order_by("name")]

    def condition(self, value: str) -> Q:
        return Q(**{self.column: value})


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
    return gettext("%(time)s ago") % {"time": timesince(at, depth=1)} if at else "–"


def moment(at: Any) -> str:
    """Return the date and time in the reader's time zone and language."""
    return date_format(timezone.localtime(at), "SHORT_DATETIME_FORMAT") if at else "–"


def with_name(rows: QuerySet[Any], column: str, name: str = "person_name") -> QuerySet[Any]:
    """Annotate rows with the name of the person whose e-mail address the column holds."""
    people = get_user_model()._default_manager.filter(email=OuterRef(column))
    named: QuerySet[Any] = rows.annotate(**{name: Subquery(people.values("name")[:1])})
    return named


def person(email: str, name: str | None = None) -> SafeString:
    """Return a person's name, with the address as tooltip."""
    return format_html('<span title="{}">{}</span>', email, name or email)
