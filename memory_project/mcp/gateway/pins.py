"""Pinned tools: what was approved, what the upstream offers now, and the decisions of operators between the two."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import identity
from foundation.operations.errors import Conflict, Forbidden, NotFound
from foundation.people.caller import Caller
from memory_project.mcp.gateway import alerts, audit_events, suspicion
from memory_project.mcp.gateway.models import WAITING, PinDecision, PinnedTool, PinState

log = logging.getLogger(__name__)

PINNED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
MAX_TOOLS = 500  # tools of one upstream; further ones are left out
MAX_TOOL_BYTES = 60_000  # of one tool's canonical form; a larger one is left out
SEEN_EVERY = timedelta(hours=1)


def canonical(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pinned parts of a tool as an upstream lists it. What is absent is left out."""
    return {key: tool[key] for key in PINNED if tool.get(key) is not None}


def hash_of(tool: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a canonical form, as JSON with sorted keys and without spaces."""
    text = json.dumps(tool, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def record_listing(
    upstream: str, tools: Sequence[Mapping[str, Any]], *, own_names: Collection[str] = (), reviews_all: bool = False
) -> dict[str, str]:
    """Compare a complete list of an upstream with its pins, and return the hash of each tool by name.

    The tools of the first list are approved, except those with serious flags and with `reviews_all`. Later ones wait
    for an operator, as do tools that have changed.
    """
    listed = {str(tool.get("name", "")): canonical(tool) for tool in tools[:MAX_TOOLS]}
    listed = {name: tool for name, tool in listed.items() if _fits(upstream, name, tool)}
    hashes = {name: hash_of(tool) for name, tool in listed.items()}
    with identity.service("gateway"), transaction.atomic():
        with connection.cursor() as cursor:  # two processes may list an upstream at the same time
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"upstream {upstream}"])
        pins = {pin.tool: pin for pin in PinnedTool.objects.select_for_update().filter(upstream=upstream)}
        others = {*own_names, *PinnedTool.objects.exclude(upstream=upstream).values_list("tool", flat=True)}
        for name, tool in listed.items():
            if name in pins:
                _compare(pins[name], tool, hashes[name], others)
            else:
                _pin(upstream, tool, hashes[name], others, waits=bool(pins) or reviews_all)
        for name in set(pins) - set(listed):
            _change(pins[name], PinState.GONE)
        alerts.update(upstream)
    return hashes


def decide(caller: Caller, pin_id: int, *, accepted: bool, seen_hash: str, note: str = "") -> PinDecision:
    """Accept a tool as the upstream offers it now, or refuse it.

    Raises Conflict if the tool has changed since the operator looked at it (`seen_hash`).
    """
    _require_operator(caller)
    with identity.service("gateway"), transaction.atomic():
        pin = _locked(pin_id)
        if pin.offered_hash != seen_hash:
            raise Conflict(gettext("has changed again since you looked at it: read it anew"), field="tool")
        if pin.state not in WAITING and (pin.state == PinState.GONE or accepted == (pin.state == PinState.APPROVED)):
            raise Conflict(gettext("does not wait for a decision"), field="tool")
        decision = PinDecision.objects.create(
            pin=pin,
            accepted=accepted,
            decided_by=caller.email,
            note=note[:500],
            offered_hash=pin.offered_hash,
            before_state=pin.state,
            before_approved=pin.approved,
            before_hash=pin.approved_hash,
        )
        if accepted:
            pin.approved = pin.offered
            pin.approved_hash = pin.offered_hash
        _change(pin, PinState.APPROVED if accepted else PinState.REFUSED)
        alerts.update(pin.upstream)
        _note(caller, "accept" if accepted else "refuse", pin)
        return decision


def accept_all(caller: Caller, upstream: str, *, seen_hash: str, note: str = "") -> list[PinDecision]:
    """Accept all tools of an upstream that wait and have no flags.

    Raises Conflict if they are no longer those that the operator has looked at (`seen_hash`, of `hash_of_all`).
    """
    _require_operator(caller)
    with identity.service("gateway"), transaction.atomic():
        pins = list(unflagged(upstream).select_for_update())
        if not pins or hash_of_all(pins) != seen_hash:
            raise Conflict(gettext("have changed since you looked at them: read them anew"), field="tools")
        return [decide(caller, pin.pk, accepted=True, seen_hash=pin.offered_hash, note=note) for pin in pins]


def unflagged(upstream: str) -> QuerySet[PinnedTool]:
    """Return the tools of an upstream that wait for a decision and have no flags."""
    return PinnedTool.objects.filter(upstream=upstream, state__in=WAITING, flags=[]).order_by("tool")


def hash_of_all(pins: Iterable[PinnedTool]) -> str:
    """Return a hash of what several tools are offered as, in any order."""
    return hashlib.sha256("\n".join(sorted(pin.offered_hash for pin in pins)).encode()).hexdigest()


def undo(caller: Caller, decision_id: int) -> PinDecision:
    """Undo a decision, if no later one and no change of the tool stands between."""
    _require_operator(caller)
    with identity.service("gateway"), transaction.atomic():
        decision = PinDecision.objects.select_for_update().filter(pk=decision_id).first()
        if decision is None:
            raise NotFound(gettext("there is no such decision"), field="decision")
        pin = _locked(decision.pin_id)
        decision.pin = pin
        if not can_undo(decision, latest_decision(pin)):
            raise Conflict(gettext("was undone already, or the tool has changed since"), field="decision")
        pin.approved = decision.before_approved
        pin.approved_hash = decision.before_hash
        _change(pin, PinState(decision.before_state))
        decision.undone_by = caller.email
        decision.undone_at = timezone.now()
        decision.save(update_fields=["undone_by", "undone_at"])
        alerts.update(pin.upstream)
        _note(caller, "undo", pin)
        return decision


def latest_decision(pin: PinnedTool) -> PinDecision | None:
    """Return the latest decision on a tool that was not undone."""
    return PinDecision.objects.filter(pin=pin, undone_at=None).order_by("-pk").first()


def can_undo(decision: PinDecision, latest: PinDecision | None) -> bool:
    """Return whether a decision is the latest one on its tool and still in force."""
    expected = PinState.APPROVED if decision.accepted else PinState.REFUSED
    return decision.undone_at is None and latest == decision and decision.pin.state == expected


def _require_operator(caller: Caller) -> None:
    if not caller.is_operator:
        raise Forbidden(gettext("operators decide about the tools of upstreams"))


def _note(caller: Caller, action: str, pin: PinnedTool) -> None:
    audit_events.record(caller, action, upstream=pin.upstream, tool=pin.tool, sha256=pin.offered_hash)


def _locked(pin_id: int) -> PinnedTool:
    pin = PinnedTool.objects.select_for_update().filter(pk=pin_id).first()
    if pin is None:
        raise NotFound(gettext("there is no such tool"), field="tool")
    return pin


def _fits(upstream: str, name: str, tool: Mapping[str, Any]) -> bool:
    text = json.dumps(tool)
    has_nul = "\\u0000" in text.replace("\\\\", "")  # which PostgreSQL can't store
    if name and len(name) <= 200 and len(text) <= MAX_TOOL_BYTES and not has_nul:
        return True
    log.warning("left out a tool of the upstream %s: it is too long, or contains NUL", upstream)
    return False


def _pin(upstream: str, tool: dict[str, Any], digest: str, others: Collection[str], *, waits: bool) -> None:
    found = suspicion.flags(tool, None, others)
    is_approved = not waits and not suspicion.is_serious(found)
    PinnedTool.objects.create(
        upstream=upstream,
        tool=str(tool["name"]),
        state=PinState.APPROVED if is_approved else PinState.NEW,
        approved=tool if is_approved else None,
        approved_hash=digest if is_approved else "",
        offered=tool,
        offered_hash=digest,
        flags=found,
    )


def _compare(pin: PinnedTool, tool: dict[str, Any], digest: str, others: Collection[str]) -> None:
    now = timezone.now()
    if digest != pin.offered_hash:
        pin.offered = tool
        pin.offered_hash = digest
        pin.flags = suspicion.flags(tool, pin.approved, others)
        _change(pin, _state_as_decided(pin))
        log.warning("the tool %s of the upstream %s has changed", pin.tool, pin.upstream)
    elif pin.state == PinState.GONE:
        _change(pin, _state_as_decided(pin))
    elif now - pin.last_seen_at > SEEN_EVERY:
        PinnedTool.objects.filter(pk=pin.pk).update(last_seen_at=now)


def _state_as_decided(pin: PinnedTool) -> PinState:
    """Return the state of a tool that is offered anew. A decision about the text that it has now still holds."""
    same_text = PinDecision.objects.filter(pin=pin, offered_hash=pin.offered_hash, undone_at=None)
    decision = same_text.order_by("-pk").first()
    if decision is not None and not decision.accepted:
        return PinState.REFUSED
    if not pin.approved_hash:
        return PinState.NEW
    return PinState.APPROVED if pin.offered_hash == pin.approved_hash else PinState.CHANGED


def _change(pin: PinnedTool, state: PinState) -> None:
    if state == PinState.GONE == pin.state:
        return
    pin.state = state
    pin.changed_at = timezone.now()
    if state != PinState.GONE:
        pin.last_seen_at = pin.changed_at
    pin.save()
