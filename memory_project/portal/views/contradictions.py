"""Contradictions: pairs of texts that wait for a verdict, the person's verdicts, and their undo."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from foundation.operations.errors import DomainError
from foundation.operations.paging import page
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from knowledge.contradictions import queries, verdicts
from knowledge.contradictions.operations import GiveVerdict, UndoSettlement
from knowledge.models import PairVerdict, SettlementState
from memories.validity.scopes.choices import choices
from memories.validity.scopes.names import PERSONA
from memory_project.portal.form_fields import posted, scope_groups
from memory_project.web.error_labels import message_with_label

VERDICTS_SHOWN = 5  # of the person's own verdicts, each of which the page offers to undo


@require_safe
@login_required
def contradiction_list(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    found = page(queries.contradictions(caller), request.GET.get("after", ""), by="found_at")
    known = choices(caller)
    context = {
        "cases": [_shown(caller, case, known) for case in queries.cases(found.rows)],
        "after": found.after,
        "own": queries.settlements(caller).filter(undone_at__isnull=True)[:VERDICTS_SHOWN],
    }
    return render(request, "portal/contradictions.html", context)


def _shown(caller: Caller, case: queries.Case, known: dict[str, str]) -> dict[str, Any]:
    """Return a pair with the scopes that each of its memories may get, and what colleagues have proposed."""
    memories = [memory for memory in (case.pair.first, case.pair.second) if memory]
    sides = []
    for name, memory in zip(("first", "second"), memories, strict=False):
        scopes = {**known, f"{PERSONA}:{memory.persona}": known.get(f"{PERSONA}:{memory.persona}", memory.persona)}
        proposed = next((getattr(row, f"{name}_scope") for row in case.verdicts if row.verdict == PairVerdict.BOTH), "")
        sides.append(
            {
                "name": name,
                "record": memory,
                "is_own": caller.can_edit_for(memory.created_by),
                "scope": case.scopes.get(memory.scope, ""),
                "chosen": memory.scope or proposed,
                "groups": scope_groups(scopes, memory.scope or proposed),
            }
        )
    proposals = [
        {"row": row, "scopes": [case.scopes[each] for each in (row.first_scope, row.second_scope) if each]}
        for row in case.verdicts
        if row.state == SettlementState.PROPOSED
    ]
    return {"case": case, "sides": sides, "proposals": proposals}


@require_POST
@login_required
def settle(request: HttpRequest, contradiction_id: UUID) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    names = ["verdict", "note"]
    if request.POST.get("verdict") == PairVerdict.BOTH:
        names += ["first_scope", "second_scope"]
    try:
        operation = posted(GiveVerdict, request, *names, contradiction_id=contradiction_id)
        settlement = verdicts.give_verdict(caller, operation)
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        messages.success(
            request,
            gettext("Settled.")
            if settlement.state == SettlementState.DECIDED
            else gettext("Proposed to the owner of the other memory. What you may change yourself is changed."),
        )
    return redirect("contradictions")


@require_POST
@login_required
def undo(request: HttpRequest, settlement_id: UUID) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    try:
        verdicts.undo(caller, UndoSettlement.read({"settlement_id": settlement_id.hex}))
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        messages.success(request, gettext("Undone."))
    return redirect("contradictions")
