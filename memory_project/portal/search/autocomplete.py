"""Autocomplete of form fields: entities, columns, people and tags.

Each list is short and limited to what the caller may see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.db.models import F, Func, Q, TextField
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from foundation.operations.errors import NotFound
from foundation.operations.fields import UNSTORABLE
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from knowledge.catalog import entity_view, name_resolution
from knowledge.catalog.current import get_readable_catalog
from knowledge.catalog.interface import CatalogRefused, CatalogUnavailable
from knowledge.review import clarifications
from memories.retrieval.filters import Filters, visible_rows
from memory_project.models import User

MAX_OPTIONS = 10  # maximum number of options returned


@dataclass(frozen=True)
class PickerOption:
    """A choice. The form submits `value`; the page shows `label` and `hint`."""

    value: str
    label: str
    hint: str = ""


def entities(caller: Caller, text: str, about: str) -> Sequence[PickerOption]:
    rows = name_resolution.entities_like(text)[:MAX_OPTIONS]
    return [PickerOption(row.urn, str(row), " · ".join(filter(None, [row.entity_type, row.platform]))) for row in rows]


def columns(caller: Caller, text: str, about: str) -> Sequence[PickerOption]:
    """Return matching columns of the entity `about`, which is a URN or a name."""
    if not about:
        return []
    try:
        entity = entity_view.load_entity(get_readable_catalog(), name_resolution.urn_of(about))
    except (CatalogUnavailable, CatalogRefused):
        return []
    matching = [column for column in entity.columns if text.lower() in column.simple_path.lower()]
    return [
        PickerOption(column.simple_path, column.simple_path, column.native_type) for column in matching[:MAX_OPTIONS]
    ]


def people(caller: Caller, text: str, about: str) -> Sequence[PickerOption]:
    """Return matching people with an active account. Callers who aren't admins get only people of their personas."""
    rows = User.objects.filter(is_active=True).filter(Q(email__icontains=text) | Q(name__icontains=text))
    if not caller.is_admin:
        rows = rows.filter(personas__name__in=caller.personas).distinct()
    return [PickerOption(row.email, row.name or row.email, row.email if row.name else "") for row in rows[:MAX_OPTIONS]]


def tags(caller: Caller, text: str, about: str) -> Sequence[PickerOption]:
    tag = Func(F("tags"), function="unnest", output_field=TextField())
    rows = visible_rows(caller, Filters()).exclude(tags=[]).order_by().annotate(tag=tag).values_list("tag", flat=True)
    matching = [name for name in sorted(set(rows.distinct()[:1_000])) if text.lower() in name.lower()]
    return [PickerOption(name, name) for name in matching[:MAX_OPTIONS]]


KINDS: dict[str, Callable[[Caller, str, str], Sequence[PickerOption]]] = {
    "entity": entities,
    "column": columns,
    "person": people,
    "tag": tags,
}


@require_safe
@login_required
def options(request: HttpRequest, kind: str) -> HttpResponse:
    if kind not in KINDS:
        raise NotFound(gettext("%(kind)r is not a known picker") % {"kind": kind})
    text, about = (UNSTORABLE.sub("", request.GET.get(name, "")).strip()[:200] for name in ("q", "about"))
    found_options = KINDS[kind](caller_from_request(request, channel="portal"), text, about)
    return render(request, "portal/_options.html", {"options": found_options})


def colleagues(caller: Caller) -> list[PickerOption]:
    """Return the people to whom the caller may hand an insight."""
    return [PickerOption(person.email, str(person)) for person in clarifications.colleagues(caller)]
