"""Admin actions with a confirmation page. A confirmed action starts a batch of memories.writing.bulk_actions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.formats import number_format
from django.utils.functional import lazy
from django.utils.translation import gettext

from foundation.operations.errors import DomainError, with_allowed
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from memories.writing import bulk_actions
from memories.writing.bulk_actions import BulkAction

COMPARED = 200  # maximum number of rows whose state the confirmation page keeps
SEEN = re.compile(r"seen-[0-9a-f]{32}")  # the field with the token of a row's state
SHOWN = 20  # maximum number of rows listed on the confirmation page

Preview = Callable[[Caller, Sequence[Any]], Sequence[Any]]


def as_they_are(caller: Caller, rows: Sequence[Any]) -> Sequence[Any]:
    return [str(row) for row in rows]


@dataclass(frozen=True)
class AdminAction:
    """An entry of the menu of actions: the bulk action of this name, and how its confirmation page shows the rows."""

    name: str
    preview: Preview = as_they_are  # returns a text about the effect for each row
    permissions: Sequence[str] = ()

    @property
    def action(self) -> BulkAction:
        return bulk_actions.BULK_ACTIONS[self.name]

    def for_menu(self) -> Callable[..., HttpResponse | None]:
        @admin.action(description=lazy(lambda: str(self.action.title), str)(), permissions=self.permissions or None)
        def act(model_admin: Any, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
            return confirm(model_admin, request, rows, self)

        act.__name__ = self.name
        act.definition = self  # type: ignore[attr-defined]  # for the page of a row, which shows the actions that apply
        return act


def confirm(model_admin: Any, request: HttpRequest, rows: QuerySet[Any], entry: AdminAction) -> HttpResponse | None:
    """Show the confirmation page, or start the batch if the request confirms it.

    The page lists the first SHOWN rows, and says how many of the selected ones are left out. The batch contains every
    selected row that the action is offered for, and the rows that were shown on the page.
    """
    caller = caller_from_request(request, channel="admin")
    action = entry.action
    chosen_count = rows.count()
    chosen = rows
    rows = action.offered(caller, rows)
    total = rows.count()
    problem = ""
    if "confirm" in request.POST:
        problem = _more_than_expected(request, total)
        if not problem:
            try:
                return _start(model_admin, request, caller, entry, chosen, rows)
            except DomainError as error:
                problem = _refusal(action, error)
    limit = 1 if action.takes_text else bulk_actions.MAX_UNITS
    context = {
        **admin.site.each_context(request),
        "title": f"{action.title}: {number_format(total, use_l10n=True, force_grouping=True)}",
        "opts": model_admin.model._meta,
        "table_title": model_admin.table_title(),
        "list_address": model_admin.list_address(),
        "cancel_address": request.get_full_path(),
        "name": entry.name,
        "act": action,
        "lines": entry.preview(caller, list(rows[:SHOWN])),
        "total": total,
        "seen": [(pk.hex, token) for pk, token in _versions(action, rows[:COMPARED]).items()],
        "not_decidable": chosen_count - total,
        "hidden_count": max(total - SHOWN, 0),
        "is_refused": total > limit or not total,
        "limit": limit,
        "fault": problem,
        "reason": request.POST.get("reason", ""),
        "choice": request.POST.get("choice", ""),
        "has_choices": action.choices is not None,  # a separate key, because a template would call the function
        "choices": action.choices(caller) if action.choices else [],
        "checkbox": ACTION_CHECKBOX_NAME,
        "chosen_ids": request.POST.getlist(ACTION_CHECKBOX_NAME),
        "select_across": request.POST.get("select_across", "0"),
    }
    return TemplateResponse(request, "admin/act.html", context, status=400 if problem else 200)


def _more_than_expected(request: HttpRequest, total: int) -> str:
    """Return an error if more rows match by now than the page said. Rows that no longer match need no question."""
    expected = request.POST.get("expected", "")
    if request.POST.get("select_across") != "1" or not expected.isdecimal() or total <= int(expected):
        return ""
    return gettext("%(n)s rows match by now, and not %(expected)s. Check them and confirm again.") % {
        "n": number_format(total, use_l10n=True, force_grouping=True),
        "expected": expected,
    }


def _refusal(action: BulkAction, error: DomainError) -> str:
    """Return the error with the labels of the confirmation page in place of the names of fields."""
    labels = {"note": gettext("Reason"), "choice": str(action.choice_label), "ids": gettext("Your selection")}
    label = labels.get(error.field)
    if label is None:
        return error.message
    return gettext("“%(field)s” %(fault)s.") % {"field": label, "fault": with_allowed(error.fault, error.allowed)}


def _versions(action: BulkAction, rows: Iterable[Any]) -> dict[UUID, str]:
    return dict(action.versions(list(rows))) if action.versions else {}


def _start(
    model_admin: Any,
    request: HttpRequest,
    caller: Caller,
    entry: AdminAction,
    chosen: QuerySet[Any],
    rows: QuerySet[Any],
) -> HttpResponse:
    # A row that was shown and no longer fits stays in the batch, which reports what has changed.
    seen = {UUID(name[5:]): str(token) for name, token in request.POST.items() if SEEN.fullmatch(name)}
    ids = [*rows.values_list("pk", flat=True)[: bulk_actions.MAX_UNITS + 1]]
    ids += chosen.filter(pk__in=seen).exclude(pk__in=ids).values_list("pk", flat=True) if seen else []
    unseen = list(rows.exclude(pk__in=seen)[: bulk_actions.MAX_UNITS]) if entry.action.versions else []
    batch = bulk_actions.start(
        caller,
        act=entry.name,
        unit_ids=ids,
        note=request.POST.get("reason", "").strip(),
        choice=request.POST.get("choice", "").strip(),
        back_to=model_admin.back_to(request),
        seen={**_versions(entry.action, unseen), **seen},
    )
    return redirect("batch", batch_id=batch.pk)
