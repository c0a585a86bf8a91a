"""Tools of upstream servers that are new or have changed, as cases of the operators' inbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated

from django.db.models import QuerySet
from django.utils.translation import gettext, gettext_lazy

from foundation.cases.kinds import MAX_PAST, Case, CaseKind, CaseVerdict, Decided, PastVerdict
from foundation.operations.errors import Invalid, NotFound
from foundation.operations.fields import Text
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from memory_project.mcp.gateway import pins, tool_queue
from memory_project.mcp.gateway.models import PinnedTool
from memory_project.mcp.gateway.names import offered_name


def _decide(accepted: bool, caller: Caller, case_id: str, seen: str, values: Mapping[str, str]) -> Decided:
    if not seen:
        allowed = gettext("the state that the list of cases shows")
        raise Invalid(gettext("is missing"), field="seen", allowed=allowed)
    note: str = validate(Annotated[str, Text(0, 500)], values.get("note", ""), "note")
    pin_id = _number(case_id, gettext("there is no such tool"), "tool")
    decision = pins.decide(caller, pin_id, accepted=accepted, seen_hash=seen, note=note)
    text = gettext("“%(tool)s” is accepted.") if accepted else gettext("“%(tool)s” is refused.")
    return Decided(text % {"tool": offered_name(decision.pin.upstream, decision.pin.tool)}, str(decision.pk))


def _number(text: str, fault: str, field: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise NotFound(fault, field=field)
    return int(text)


class UpstreamToolCases(CaseKind):
    name = "upstream_tool"
    title = gettext_lazy("Upstream tools")
    label = gettext_lazy("Upstream tool")
    is_for_role = True
    waiting_since = "changed_at"
    verdicts = (
        # One tool at a time, because each text should be read.
        CaseVerdict("accept", gettext_lazy("Accept"), partial(_decide, True), fields=("note",), key="a"),
        CaseVerdict(
            "refuse", gettext_lazy("Refuse"), partial(_decide, False), fields=("note",), key="r", takes_many=True
        ),
    )

    def is_for(self, caller: Caller) -> bool:
        return caller.is_operator

    def waiting(self, caller: Caller) -> QuerySet[PinnedTool]:
        return tool_queue.waiting_rows(caller)

    def cases(self, caller: Caller, rows: Sequence[PinnedTool]) -> list[Case]:
        found = []
        for pin in rows:
            shown = {
                "pin": pin,
                "flags": tool_queue.flags(pin),
                "parts": [part for part in tool_queue.parts(pin) if part.is_changed],
                "is_new": pin.approved is None,
            }
            name = offered_name(pin.upstream, pin.tool)
            found.append(Case(self, str(pin.pk), pin.changed_at, name, shown, seen=pin.offered_hash))
        return found

    def past(self, caller: Caller) -> list[PastVerdict]:
        return [
            PastVerdict(
                offered_name(decision.pin.upstream, decision.pin.tool),
                gettext("Accepted") if decision.accepted else gettext("Refused"),
                decision.decided_at,
                str(decision.pk) if can_undo else "",
            )
            for decision, can_undo in tool_queue.decisions_by(caller, MAX_PAST)
        ]

    def undo(self, caller: Caller, undo_token: str) -> None:
        pins.undo(caller, _number(undo_token, gettext("there is no such decision"), "undo"))
