"""Admin actions with a page in between: which rows, and why; then a batch of service calls, with its way back."""

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

from memories.access import caller_of
from memories.contract.errors import DomainError
from memories.writing import batches

SHOWN = 20  # rows that the page names


@dataclass(frozen=True)
class AdminAct:
    """One entry of the action menu: an act of memories.writing.batches, with what the page says of it."""

    name: str
    label: str
    explains: str
    needs_reason: bool = False
    reasons: Sequence[str] = ()  # to choose from; a text of one's own is taken too
    permissions: Sequence[str] = ()

    def as_action(self) -> Callable[..., HttpResponse | None]:
        @admin.action(description=self.label, permissions=self.permissions or None)
        def act(model_admin: Any, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
            return confirm(model_admin, request, rows, self)

        act.__name__ = self.name
        return act


def confirm(model_admin: Any, request: HttpRequest, rows: QuerySet[Any], act: AdminAct) -> HttpResponse | None:
    """The page that asks, and after its answer the batch. Everything chosen is meant, not only what the page names."""
    reason = request.POST.get("reason", "").strip()
    fault = ""
    if "confirm" in request.POST:
        if act.needs_reason and not reason:
            fault = "The reason is missing: the author needs to know why."
        else:
            return _start(request, rows, act, reason)
    total = rows.count()
    context = {
        **admin.site.each_context(request),
        "title": f"{act.label}: {total:,}",
        "opts": model_admin.model._meta,
        "act": act,
        "rows": rows[:SHOWN],
        "total": total,
        "hidden_count": max(total - SHOWN, 0),
        "too_many": total > batches.UNITS_MAX,
        "limit": batches.UNITS_MAX,
        "fault": fault,
        "reason": reason,
        "checkbox": ACTION_CHECKBOX_NAME,
        "chosen_ids": request.POST.getlist(ACTION_CHECKBOX_NAME),
        "select_across": request.POST.get("select_across", "0"),
    }
    return TemplateResponse(request, "admin/act.html", context, status=400 if fault else 200)


def _start(request: HttpRequest, rows: QuerySet[Any], act: AdminAct, reason: str) -> HttpResponse | None:
    ids = list(rows.values_list("pk", flat=True)[: batches.UNITS_MAX + 1])
    caller = caller_of(request, door="admin")
    try:
        batch = batches.start(caller=caller, act=act.name, unit_ids=ids, note=reason, back_to=request.get_full_path())
    except DomainError as error:
        messages.error(request, error.message)
        return None
    return redirect("batch", batch_id=batch.pk)
