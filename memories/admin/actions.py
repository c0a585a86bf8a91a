"""Admin actions with a confirmation page. A confirmed action starts a batch of memories.writing.bulk_actions."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.formats import number_format
from django.utils.translation import gettext

from foundation.operations.errors import DomainError
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from memories.writing import bulk_actions

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

COMPARED = 200  # maximum number of rows whose state the confirmation page keeps
SEEN = re.compile(r"seen-[0-9a-f]{32}")  # the field with the token of a row's state
SHOWN = 20  # maximum number of rows listed on the confirmation page

Choices = Callable[[Caller], Sequence[tuple[str, str]]]
Rows = QuerySet[Any]


def as_they_are(caller: Caller, rows: Sequence[Any]) -> Sequence[Any]:
    return [str(row) for row in rows]


@dataclass(frozen=True)
class AdminAct:
    """An entry of the action menu: the bulk action `name`, with the texts of its confirmation page."""

    name: str
    label: StrOrPromise
    description: StrOrPromise
    needs_reason: bool = False
    reasons: Sequence[str] = ()  # suggested reasons; users may enter any other text
    permissions: Sequence[str] = ()
    choices: Choices | None = None  # options to choose from, for example colleagues or personas
    choice_label: StrOrPromise = ""
    asks_text: bool = False  # the action needs a text instead of an option, and only one row
    preview: Callable[[Caller, Sequence[Any]], Sequence[Any]] = as_they_are  # a text for each row, about the effect
    versions: Callable[[Collection[Any]], Mapping[UUID, str]] | None = None  # tokens of the rows' states
    narrow: Callable[[Caller, Rows], Rows] = lambda caller, rows: rows  # filters to rows that the caller may act on
    fits: Q | None = None  # the state in which a row can be acted on; what becomes of another one, the service says

    def offered(self, caller: Caller, rows: Rows) -> Rows:
        rows = self.narrow(caller, rows)
        return rows if self.fits is None else rows.filter(self.fits)

    def as_action(self) -> Callable[..., HttpResponse | None]:
        @admin.action(description=self.label, permissions=self.permissions or None)
        def act(model_admin: Any, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
            return confirm(model_admin, request, rows, self)

        act.__name__ = self.name
        act.definition = self  # type: ignore[attr-defined]  # for the page of a row, which shows the actions that apply
        return act


def confirm(model_admin: Any, request: HttpRequest, rows: QuerySet[Any], act: AdminAct) -> HttpResponse | None:
    """Show the confirmation page, or start the batch if the request confirms it.

    The page lists the first SHOWN rows, and says how many of the selected ones are left out. The batch contains every
    selected row that the action is offered for, and the rows that were shown on the page.
    """
    caller = caller_from_request(request, channel="admin")
    chosen_count = rows.count()
    chosen = rows
    rows = act.offered(caller, rows)
    total = rows.count()
    problem = _problem(request, act, total) if "confirm" in request.POST else ""
    is_all = request.POST.get("select_across") == "1"
    expected = request.POST.get("expected", "")
    if "confirm" in request.POST and not problem and is_all and expected.isdecimal() and total > int(expected):
        # Nobody has seen this number. Rows that no longer match need no question.
        problem = gettext("%(n)s rows match by now, and not %(expected)s. Check them and confirm again.") % {
            "n": number_format(total, use_l10n=True, force_grouping=True),
            "expected": expected,
        }
    if "confirm" in request.POST and not problem:
        # A row that was shown and no longer fits stays in the batch, which reports what has changed.
        seen = {UUID(name[5:]): str(token) for name, token in request.POST.items() if SEEN.fullmatch(name)}
        ids = [*rows.values_list("pk", flat=True)[: bulk_actions.MAX_UNITS + 1]]
        ids += chosen.filter(pk__in=seen).exclude(pk__in=ids).values_list("pk", flat=True) if seen else []
        unseen = list(rows.exclude(pk__in=seen)[: bulk_actions.MAX_UNITS]) if act.versions else []
        back_to = model_admin.back_to(request)
        return _start(request, caller, ids, act, {**_versions(act, unseen), **seen}, back_to)
    context = {
        **admin.site.each_context(request),
        "title": f"{act.label}: {number_format(total, use_l10n=True, force_grouping=True)}",
        "opts": model_admin.model._meta,
        "table_title": model_admin.table_title(),
        "list_address": model_admin.list_address(),
        "cancel_address": request.get_full_path(),
        "act": act,
        "lines": act.preview(caller, list(rows[:SHOWN])),
        "total": total,
        "seen": [(pk.hex, token) for pk, token in _versions(act, rows[:COMPARED]).items()],
        "not_decidable": chosen_count - total,
        "hidden_count": max(total - SHOWN, 0),
        "is_refused": total > bulk_actions.MAX_UNITS or not total or (act.asks_text and total > 1),
        "limit": 1 if act.asks_text else bulk_actions.MAX_UNITS,
        "fault": problem,
        "reason": request.POST.get("reason", ""),
        "choice": request.POST.get("choice", ""),
        "has_choices": act.choices is not None,  # a separate key, because a template would call the function
        "choices": act.choices(caller) if act.choices else [],
        "checkbox": ACTION_CHECKBOX_NAME,
        "chosen_ids": request.POST.getlist(ACTION_CHECKBOX_NAME),
        "select_across": request.POST.get("select_across", "0"),
    }
    return TemplateResponse(request, "admin/act.html", context, status=400 if problem else 200)


def _versions(act: AdminAct, rows: Iterable[Any]) -> dict[UUID, str]:
    return dict(act.versions(list(rows))) if act.versions else {}


def _problem(request: HttpRequest, act: AdminAct, total: int) -> str:
    if act.needs_reason and not request.POST.get("reason", "").strip():
        return gettext("The reason is missing: the author needs to know why.")
    if (act.choices or act.asks_text) and not request.POST.get("choice", "").strip():
        return gettext("Fill in the field “%(field)s”.") % {"field": act.choice_label}
    if act.asks_text and total > 1:
        return gettext("Choose a single row: the text replaces one memory.")
    return ""


def _start(
    request: HttpRequest,
    caller: Caller,
    ids: Sequence[UUID],
    act: AdminAct,
    seen: Mapping[UUID, str],
    back_to: str,
) -> HttpResponse | None:
    try:
        batch = bulk_actions.start(
            caller,
            act=act.name,
            unit_ids=ids,
            note=request.POST.get("reason", "").strip(),
            choice=request.POST.get("choice", "").strip(),
            back_to=back_to,
            seen=seen,
        )
    except DomainError as error:
        messages.error(request, error.message)
        return None
    return redirect("batch", batch_id=batch.pk)
