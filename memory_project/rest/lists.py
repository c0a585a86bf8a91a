"""Lists: keyset pages with a Link header, filtered by a FilterSet of django-filter.

A page is {"items": […], "next": "https://…" or null}. New rows don't shift the pages.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import urlencode

import django_filters
from django.conf import settings
from django.db.models import Q, QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from typing_extensions import TypedDict

from foundation.operations.errors import Invalid
from foundation.operations.fields import EntityUrn, OneOf
from foundation.operations.operation import Operation, validate
from foundation.operations.paging import page
from foundation.operations.timestamps import is_storable
from foundation.people.caller import Caller
from memory_project.rest import sparse_fields
from memory_project.rest.access import Access, caller_for_tool
from memory_project.rest.schema import ERRORS, HEADERS, query_parameters, response_headers, responses

MAX_SIZE = 100


class Paging(Operation):
    """Which page of a list"""

    cursor: Annotated[str, Field(max_length=200)] = Field(
        "", description="Where the page begins; `next` of the page before has it."
    )
    limit: Annotated[int, Field(ge=1, le=MAX_SIZE)] = Field(20, description="How many items.")
    order: Annotated[str, OneOf(("newest", "oldest"))] = "newest"


def each(response: Callable[[Any], Any]) -> Callable[[Caller, Sequence[Any]], Sequence[Any]]:
    """Return a function that makes the items of a list from its rows, each with `response`."""
    return lambda caller, rows: [response(row) for row in rows]


@dataclass(frozen=True)
class Listing:
    """A list: its rows that a caller may see, how they are filtered, and how they are shown."""

    operation_id: str
    rows: Callable[..., QuerySet[Any]]  # takes the caller, and the parameters of the path by name
    items: Callable[[Caller, Sequence[Any]], Sequence[Any]]
    item: Any  # the type of an item
    filters: type[django_filters.FilterSet] = django_filters.FilterSet
    tool: str = ""  # the MCP tool, and its command, whose permission applies
    command: str = ""
    by: str = "created_at"  # the timestamp by which the list is ordered
    access: Access = Access.TOKEN
    summary: str = ""

    @functools.cached_property
    def page_type(self) -> Any:
        name = self.item.__name__.removesuffix("Response")
        return TypedDict(f"{name}Page", {"items": list[self.item], "next": str | None})  # type: ignore[operator, name-defined]  # known at run time

    def method(self, tag: str) -> Callable[..., Response]:
        """Return the method GET of a view."""

        def method(view: APIView, request: Request, **path: Any) -> Response:
            return self._answer(request, path)

        parameters = [
            *query_parameters(Paging, set()),
            HEADERS["fields"],
            *(_described(name, part) for name, part in self.filters.base_filters.items()),
            *response_headers([200], is_list=True),
        ]
        decorate = extend_schema(
            operation_id=self.operation_id,
            summary=self.summary,
            description="",
            tags=[tag],
            parameters=parameters,
            responses=responses(self.page_type, (200,), ERRORS),
        )
        decorated: Callable[..., Response] = decorate(method)
        return decorated

    def _answer(self, request: Request, path: Mapping[str, Any]) -> Response:
        caller = caller_for_tool(request, self.tool, self.command, self.access)
        paging = self._paging(request)
        selection = sparse_fields.selection(request, self.item)
        rows = self._filtered(self.rows(caller, **path), request, caller)
        try:
            found = page(rows, paging.cursor, by=self.by, newest=paging.order == "newest", size=paging.limit)
        except Invalid as error:  # pages of other channels call it `after`
            raise Invalid(error.fault, field="cursor", allowed=error.allowed) from None
        address = next_address(request, found.after) if found.after else None
        items = sparse_fields.apply(selection, list(self.items(caller, found.rows)))
        headers = {"Link": f'<{address}>; rel="next"'} if address else {}
        return Response({"items": items, "next": address}, headers=headers)

    def _paging(self, request: Request) -> Paging:
        names = {*Paging.model_fields, *self.filters.base_filters, sparse_fields.FIELDS}
        for name in request.query_params:
            if name not in names:
                raise Invalid("is unknown", field=name[:80], allowed=", ".join(sorted(names)))
            if len(request.query_params.getlist(name)) > 1 and name != sparse_fields.FIELDS:
                raise Invalid("is given more than once", field=name, allowed="one value")
        values = {name: request.query_params[name] for name in Paging.model_fields if name in request.query_params}
        return Paging.read(values)

    def _filtered(self, rows: QuerySet[Any], request: Request, caller: Caller) -> QuerySet[Any]:
        data = {name: value for name, value in request.query_params.items() if name in self.filters.base_filters}
        if empty := [name for name, value in data.items() if not value]:
            raise Invalid("is empty", field=empty[0], allowed="a value, or leave the parameter out")
        filters = self.filters(data, rows, request=request)
        if not filters.form.is_valid():
            name, errors = next(iter(filters.form.errors.get_json_data().items()))
            raise Invalid(f"{data.get(name, '')[:80]!r}: {errors[0]['message']}", field=name)
        for name, value in filters.form.cleaned_data.items():
            if isinstance(value, datetime) and not is_storable(value):
                raise Invalid(f"{data[name]!r} is out of range", field=name, allowed="the years 1 to 9999 in UTC")
        filtered: QuerySet[Any] = filters.qs
        return filtered


class FlagFilter(django_filters.TypedChoiceFilter):
    """true or false. django-filter's own BooleanFilter ignores any other text."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        choices = [("true", "true"), ("false", "false")]
        super().__init__(*args, choices=choices, coerce=lambda value: value == "true", **kwargs)


class EntityFilter(django_filters.CharFilter):
    """A catalog entity, by URN or name. `rule` returns the condition for the rows about the entity with a URN."""

    def __init__(self, rule: Callable[[str], Q]) -> None:
        super().__init__(help_text="Catalog entity, by URN or name.")
        self.rule = rule

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        return qs.filter(self.rule(validate(EntityUrn, value, "entity_urn"))) if value else qs


def next_address(request: Request, cursor: str) -> str:
    parameters = [(name, value) for name, value in request.query_params.items() if name != "cursor"]
    return f"{settings.COMMONPLACE_URL}{request.path}?{urlencode([*parameters, ('cursor', cursor)])}"


def _described(name: str, part: django_filters.Filter) -> OpenApiParameter:
    schema: dict[str, Any] = {"type": "string", "minLength": 1}
    if isinstance(part, django_filters.ChoiceFilter) and not isinstance(part, FlagFilter):
        schema = {"type": "string"}
        schema["enum"] = [value for value, _ in part.extra.get("choices", ())]
    elif isinstance(part, FlagFilter):
        schema = {"type": "boolean"}
    elif isinstance(part, django_filters.IsoDateTimeFilter):
        schema["format"] = "date-time"
    return OpenApiParameter(name, schema, description=str(part.extra.get("help_text", "")))
