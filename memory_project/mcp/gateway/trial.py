"""A trial of a declaration: one connection of its own, which lists what the upstream offers and is closed again."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio import to_thread
from django.utils.translation import gettext

from foundation.database import connections, identity
from foundation.operations import errors
from foundation.operations.errors import DomainError, NotFound
from foundation.people.caller import Caller
from memory_project.mcp.gateway import credentials, declarations, pins, registry, status, suspicion
from memory_project.mcp.gateway.credential_owners import NOBODY
from memory_project.mcp.gateway.declaration import Upstream
from memory_project.mcp.gateway.models import PinnedTool
from memory_project.mcp.gateway.session import UpstreamSession

TIME_LIMIT_S = 30.0  # of a trial, whatever time limit the declaration names
CLOSE_S = 3.0


@dataclass(frozen=True, kw_only=True)
class UpstreamTrial:
    """The answer of an upstream. `problem` is empty if it answered. `flagged` has the rules that flag a tool."""

    problem: str = ""
    server: str = ""  # name and version as the server states them
    tools: Sequence[str] = ()
    flagged: Mapping[str, Sequence[str]] = field(default_factory=dict)
    resources: int = 0
    milliseconds: int = 0


def try_declaration(caller: Caller, *, name: str, text: str) -> UpstreamTrial:
    """Connect by a declaration that need not be saved. Nothing is stored, and no tool is pinned.

    Raises Forbidden unless the caller is an operator, and Invalid for a declaration that is not valid.
    """
    declarations.require_operator(caller)
    return _tried(caller, declarations.check(name, text))


def try_upstream(caller: Caller, *, name: str) -> UpstreamTrial:
    """Connect to an upstream that is declared and enabled. If it answers, it is listed within seconds.

    Raises NotFound if there is no upstream of that name.
    """
    declarations.require_operator(caller)
    upstream = registry.refreshed(at_once=True).upstreams.get(name)
    if upstream is None:
        raise NotFound(gettext("there is no upstream %(name)r") % {"name": name[:40]}, field="name")
    answer = _tried(caller, upstream)
    if not answer.problem:
        declarations.list_soon(name)
    return answer


def list_tools(upstream: Upstream, caller: Caller) -> int:
    """List the tools with the caller's credential, which pins those of a per-person upstream. Return their number.

    Raises DomainError.
    """
    try:
        return len(_offer_of(upstream, caller, is_recorded=True).tools)
    except errors.Upstream as error:
        raise errors.Upstream(error.message.removeprefix(f"{upstream.name}: ")) from None


def _tried(caller: Caller, upstream: Upstream) -> UpstreamTrial:
    started = time.perf_counter()
    try:
        offer = _offer_of(upstream, NOBODY if upstream.credentials == "service" else caller)
    except DomainError as error:
        return UpstreamTrial(problem=error.message, milliseconds=_since(started))
    return UpstreamTrial(
        server=offer.server,
        tools=[str(tool.get("name", ""))[:200] for tool in offer.tools],
        flagged=_flagged(upstream.name, offer.tools),
        resources=len(offer.resources) + len(offer.templates),
        milliseconds=_since(started),
    )


@dataclass(frozen=True)
class _Offer:
    server: str
    tools: Sequence[dict[str, Any]]
    resources: Sequence[Any]
    templates: Sequence[Any]


def _offer_of(upstream: Upstream, caller: Caller, *, is_recorded: bool = False) -> _Offer:
    connections.close_if_pooled()
    return anyio.run(_offered, upstream, caller, is_recorded)


async def _offered(upstream: Upstream, caller: Caller, is_recorded: bool) -> _Offer:
    """Return what the upstream offers, in an event loop that is the trial's own. Queries run in other threads."""
    credential = await to_thread.run_sync(credentials.for_connection, upstream, caller)
    session = UpstreamSession(upstream, credential.headers, credential.auth, lambda: None, credential.version)
    offer = await _listed(session)
    if is_recorded:
        await to_thread.run_sync(
            status.record, upstream, list(offer.tools), offer.resources, offer.templates, offer.server
        )
    return offer


async def _listed(session: UpstreamSession) -> _Offer:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.own)
        found: _Offer | DomainError = errors.Upstream(_too_late(session.upstream))
        try:
            with anyio.move_on_after(TIME_LIMIT_S):
                await session.ready.wait()
                found = _Offer(session.server, *await session.list_offer())
        except DomainError as error:  # kept, because a task group would wrap it
            found = error
        session.close()
        tasks.cancel_scope.deadline = anyio.current_time() + CLOSE_S
    if isinstance(found, DomainError):
        raise found
    return found


def _flagged(upstream: str, tools: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the rules that flag each tool, compared with all other tools on offer."""
    with identity.service("gateway"):
        others = {*registry.own_names(), *PinnedTool.objects.exclude(upstream=upstream).values_list("tool", flat=True)}
    names = {str(tool.get("name", "")) for tool in tools}
    found = {
        str(tool["name"]): sorted(
            {flag["rule"] for flag in suspicion.flags(pins.canonical(tool), None, others | names)}
        )
        for tool in tools
    }
    return {tool: rules for tool, rules in found.items() if rules}


def _too_late(upstream: Upstream) -> str:
    text = gettext("did not answer within %(seconds)s s") % {"seconds": f"{TIME_LIMIT_S:.0f}"}
    return f"{upstream.name}: {text}"


def _since(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)
