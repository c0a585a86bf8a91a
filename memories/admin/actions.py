"""Admin actions with a page in between: which rows, what becomes of them, and why; then a batch of service calls, with
its way back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse

from memories.contract.errors import DomainError
from memories.identity.caller import Caller
from memories.identity.permissions import caller_from_request
from memories.writing import bulk_actions

SHOWN = 20  # rows that the page names

Choices = Callable[[Caller], Sequence[tuple[str, str]]]
Rows = QuerySet[Any]


def as_they_are(caller: Caller, rows: Sequence[Any]) -> Sequence[Any]:
    """A preview that names the rows alone."""
    return [str(row) for row in rows]


@dataclass(frozen=True)
class AdminAct:
    """One entry of the action menu: an act of memories.writing.bulk_actions, with what the page says of it."""

    name: str
    label: str
    explains: str
    needs_reason: bool = False
    reasons: Sequence[str] = ()  # to choose from; a text of one's own is taken too
    permissions: Sequence[str] = ()
    choices: Choices | None = None  # what is chosen with the act: a colleague, a persona, a visibility
    choice_label: str = ""
    asks_text: bool = False  # what is chosen is a text of one's own, for a single row
    preview: Callable[[Caller, Sequence[Any]], Sequence[Any]] = as_they_are  # a line a row: what becomes of it
    narrow: Callable[[Caller, Rows], Rows] = lambda caller, rows: rows  # those that the person may decide

    def as_action(self) -> Callable[..., HttpResponse | None]:
        @admin.action(description=self.label, permissions=self.permissions or None)
        def act(model_admin: Any, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
            return confirm(model_admin, request, rows, self)

        act.__name__ = self.name
        return act


def confirm(model_admin: Any, request: HttpRequest, rows: QuerySet[Any], act: AdminAct) -> HttpResponse | None:
    """The page that asks, and after its answer the batch. Everything chosen is meant, not only what the page names."""
    caller = caller_from_request(request, channel="admin")
    chosen_count = rows.count()
    rows = act.narrow(caller, rows)
    total = rows.count()
    fault = _fault(request, act, total) if "confirm" in request.POST else ""
    if "confirm" in request.POST and not fault:
        return _start(request, caller, rows, act)
    context = {
        **admin.site.each_context(request),
        "title": f"{act.label}: {total:,}",
        "opts": model_admin.model._meta,
        "act": act,
        "lines": act.preview(caller, list(rows[:SHOWN])),
        "total": total,
        "not_decidable": chosen_count - total,
        "hidden_count": max(total - SHOWN, 0),
        "is_refused": total > bulk_actions.MAX_UNITS or not total or (act.asks_text and total > 1),
        "limit": 1 if act.asks_text else bulk_actions.MAX_UNITS,
        "fault": fault,
        "reason": request.POST.get("reason", ""),
        "choice": request.POST.get("choice", ""),
        "has_choices": act.choices is not None,  # a template would call the function
        "choices": act.choices(caller) if act.choices else [],
        "checkbox": ACTION_CHECKBOX_NAME,
        "chosen_ids": request.POST.getlist(ACTION_CHECKBOX_NAME),
        "select_across": request.POST.get("select_across", "0"),
    }
    return TemplateResponse(request, "admin/act.html", context, status=400 if fault else 200)


def _fault(request: HttpRequest, act: AdminAct, total: int) -> str:
    if act.needs_reason and not request.POST.get("reason", "").strip():
        return "The reason is missing: the author needs to know why."
    if (act.choices or act.asks_text) and not request.POST.get("choice", "").strip():
        return f"{act.choice_label} is missing."
    if act.asks_text and total > 1:
        return "Choose a single row: a text is about one memory."
    return ""


def _start(request: HttpRequest, caller: Caller, rows: QuerySet[Any], act: AdminAct) -> HttpResponse | None:
    ids = list(rows.values_list("pk", flat=True)[: bulk_actions.MAX_UNITS + 1])
    try:
        batch = bulk_actions.start(
            caller=caller,
            act=act.name,
            unit_ids=ids,
            note=request.POST.get("reason", "").strip(),
            choice=request.POST.get("choice", "").strip(),
            back_to=request.get_full_path(),
        )
    except DomainError as error:
        messages.error(request, error.message)
        return None
    return redirect("batch", batch_id=batch.pk)
