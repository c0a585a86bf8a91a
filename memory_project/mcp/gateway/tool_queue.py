"""The queue of upstream tools for operators: which ones wait, and how an offered tool differs from the approved one."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, QuerySet
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from foundation.database import identity
from foundation.operations.display import show_invisible
from foundation.operations.errors import Forbidden, NotFound
from foundation.people.caller import Caller
from memory_project.mcp.gateway import pins, registry, suspicion
from memory_project.mcp.gateway.models import WAITING, PinDecision, PinnedTool, PinState

NO_ASCII = re.compile(r"[^\x20-\x7e]")
CONTEXT_LINES = 3  # unchanged lines that are shown before and after the changed ones
STATES: Mapping[str, Collection[str]] = {
    "waiting": WAITING,
    "approved": [PinState.APPROVED],
    "refused": [PinState.REFUSED],
    "gone": [PinState.GONE],
    "all": PinState.values,
}
PARTS: Mapping[str, Promise] = {
    "name": gettext_lazy("Name"),
    "title": gettext_lazy("Title"),
    "description": gettext_lazy("Description"),
    "inputSchema": gettext_lazy("Input schema"),
    "outputSchema": gettext_lazy("Output schema"),
    "annotations": gettext_lazy("Annotations"),
}
# rule of suspicion.py → its name, and what it may mean
FLAGS: Mapping[str, tuple[Promise, Promise]] = {
    "hidden characters": (
        gettext_lazy("Hidden characters"),
        gettext_lazy("The model reads them, and people don’t see them."),
    ),
    "gives orders": (
        gettext_lazy("Gives orders"),
        gettext_lazy("The text tells the model what to do, rather than what the tool does."),
    ),
    "asks for secrets": (
        gettext_lazy("Asks for secrets"),
        gettext_lazy("The text names files or values that hold credentials."),
    ),
    "names an address": (gettext_lazy("Names an address"), gettext_lazy("Data could be sent there.")),
    "holds encoded data": (
        gettext_lazy("Holds encoded data"),
        gettext_lazy("A long string that people can’t read may hide instructions."),
    ),
    "mentions another tool": (
        gettext_lazy("Mentions another tool"),
        gettext_lazy("The text could change how agents use a tool of another server."),
    ),
    "is very long": (
        gettext_lazy("Very long"),
        gettext_lazy("Long texts fill the model’s context, and hide things from people."),
    ),
    "looks like another tool": (
        gettext_lazy("Looks like another tool"),
        gettext_lazy("Agents could call it in place of the other one."),
    ),
    "has an unusual name": (
        gettext_lazy("Unusual name"),
        gettext_lazy("Clients refuse some of its characters, so agents see another name."),
    ),
    "takes the conversation": (
        gettext_lazy("Takes the conversation"),
        gettext_lazy("The argument could carry to the server what was said elsewhere."),
    ),
    "widened inputs": (
        gettext_lazy("Wider inputs"),
        gettext_lazy("The tool accepts more than the approved one did."),
    ),
    "no longer only reads": (
        gettext_lazy("No longer only reads"),
        gettext_lazy("The approved tool was annotated as reading only."),
    ),
    "now claims to only read": (
        gettext_lazy("Now claims to only read"),
        gettext_lazy("Connections that may only read would get it."),
    ),
}


@dataclass(frozen=True)
class Flag:
    title: str
    meaning: str
    where: str
    text: str
    is_serious: bool


@dataclass(frozen=True)
class ToolPart:
    """A part of a tool, before and after. Texts have invisible characters as code points."""

    title: str
    before: str
    after: str
    is_changed: bool
    skipped_before: int = 0  # equal lines that are left out at the beginning
    skipped_after: int = 0  # and at the end


def rows(caller: Caller, *, state: str, upstream: str = "") -> QuerySet[PinnedTool]:
    """Return the tools in a state of STATES. Those of undeclared or disabled upstreams don't wait."""
    if not caller.is_operator:
        raise Forbidden(gettext("operators decide about the tools of upstreams"))
    found = PinnedTool.objects.filter(state__in=STATES[state])
    if state == "waiting":
        found = found.filter(upstream__in=declared())
    return found.filter(upstream=upstream) if upstream else found


def declared() -> list[str]:
    return list(registry.refreshed().upstreams)


def counts(caller: Caller, *, upstream: str = "") -> dict[str, int]:
    """Return the number of tools in each state of STATES."""
    by_state = dict(rows(caller, state="all", upstream=upstream).order_by().values_list("state").annotate(Count("pk")))
    found = {name: sum(by_state.get(state, 0) for state in states) for name, states in STATES.items()}
    return found | {"waiting": rows(caller, state="waiting", upstream=upstream).count()}


def waiting_rows(caller: Caller) -> QuerySet[PinnedTool]:
    """Return the tools that wait, for the count in the navigation: none unless the caller is an operator."""
    if not caller.is_operator:
        return PinnedTool.objects.none()
    found = PinnedTool.objects.filter(state__in=WAITING)
    snapshot = registry.current()  # takes no query of its own; the server refreshes it every few seconds
    return found.filter(upstream__in=list(snapshot.upstreams)) if snapshot.stamp else found


def upstreams(caller: Caller) -> list[str]:
    """Return the upstreams that have tools."""
    return sorted(set(rows(caller, state="all").order_by().values_list("upstream", flat=True).distinct()))


def get(caller: Caller, pin_id: int) -> PinnedTool:
    pin = rows(caller, state="all").filter(pk=pin_id).first()
    if pin is None:
        raise NotFound(gettext("there is no such tool"), field="tool")
    return pin


def unflagged(caller: Caller, upstream: str) -> list[PinnedTool]:
    """Return the waiting tools of an upstream that can be accepted together."""
    waiting = rows(caller, state="waiting", upstream=upstream)
    return list(pins.unflagged(upstream).filter(pk__in=waiting.values("pk")))


def decisions(pin: PinnedTool) -> list[tuple[PinDecision, bool]]:
    """Return the decisions on a tool, the latest first, each with whether it can be undone."""
    with identity.service("gateway"):
        found = list(pin.decisions.select_related("pin"))
        latest = pins.latest_decision(pin)
    return [(decision, pins.can_undo(decision, latest)) for decision in found]


def decisions_by(caller: Caller, limit: int = 10) -> list[tuple[PinDecision, bool]]:
    """Return the caller's last decisions, the latest first, each with whether it can be undone."""
    with identity.service("gateway"):
        found = PinDecision.objects.filter(decided_by=caller.email, undone_at=None).select_related("pin")
        own = list(found.order_by("-pk")[:limit])
        in_force = PinDecision.objects.filter(pin__in=[decision.pin_id for decision in own], undone_at=None)
        latest = {decision.pin_id: decision for decision in in_force.order_by("pk")}
    return [(decision, pins.can_undo(decision, latest[decision.pin_id])) for decision in own]


def flags(pin: PinnedTool) -> list[Flag]:
    """Return the flags of a tool as offered, the serious ones first."""
    found = []
    for flag in pin.flags:
        title, meaning = FLAGS.get(flag["rule"], (flag["rule"], ""))
        is_serious = flag["rule"] in suspicion.SERIOUS
        text = reveal_name(flag["text"]) if flag["where"] == "name" else reveal(flag["text"])
        found.append(Flag(str(title), str(meaning), reveal(flag["where"]), text, is_serious))
    return sorted(found, key=lambda flag: not flag.is_serious)


def parts(pin: PinnedTool) -> list[ToolPart]:
    """Return the parts of a tool as approved and as offered, those that differ first."""
    approved = pin.approved or {}
    found = []
    for key, title in PARTS.items():
        show = _text if key != "name" else lambda value: reveal_name(str(value or ""))
        before = show(approved.get(key))
        after = show(pin.offered.get(key))
        if before or after:
            found.append(_part(str(title), before, after) if pin.approved else ToolPart(str(title), "", after, True))
    return sorted(found, key=lambda part: not part.is_changed)


def reveal_name(name: str) -> str:
    """Return a name with all but ASCII characters as code points, because letters of other scripts look alike."""
    return NO_ASCII.sub(_code_point, name)


def reveal(text: str) -> str:
    """Return a text with all characters that people don't see as code points."""
    return show_invisible(suspicion.HIDDEN.sub(_code_point, text))


def _code_point(match: re.Match[str]) -> str:
    return f"⟦U+{ord(match[0]):04X}⟧"


def _text(value: Any) -> str:
    if value is None:
        return ""
    return reveal(value if isinstance(value, str) else json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False))


def _part(title: str, before: str, after: str) -> ToolPart:
    if before == after:
        return ToolPart(title, before, after, False)
    old = before.splitlines()
    new = after.splitlines()
    shorter = min(len(old), len(new))
    start = next((index for index in range(shorter) if old[index] != new[index]), shorter)
    end = next((index for index in range(shorter - start) if old[-1 - index] != new[-1 - index]), shorter - start)
    head = max(start - CONTEXT_LINES, 0)
    tail = max(end - CONTEXT_LINES, 0)
    shown = ["\n".join(lines[head : len(lines) - tail]) for lines in (old, new)]
    return ToolPart(title, shown[0], shown[1], True, head, tail)
