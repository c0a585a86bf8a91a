"""The declared upstreams and their approved tools, as this process knows them.

Calls read a snapshot in memory. `refreshed` compares it with the database at most every REFRESH_S seconds, so that
declarations and decisions reach every process without a query per call.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Count, Max
from django.utils.translation import gettext
from mcp.types import Tool as OfferedTool

from foundation.database import identity
from foundation.operations.errors import DomainError
from foundation.operations.toolsets import toolsets
from foundation.people.caller import Caller
from foundation.tools.declaration import Hints, Tool, load_toolset
from memory_project.mcp.gateway import declaration
from memory_project.mcp.gateway.declaration import Upstream
from memory_project.mcp.gateway.models import DeclaredUpstream, PinnedTool, PinState, UpstreamStatus
from memory_project.mcp.gateway.names import offered_name

log = logging.getLogger(__name__)

TOOLSET = "upstreams"
REFRESH_S = 2.0


@dataclass(frozen=True, kw_only=True)
class ProxiedTool(Tool):
    """A tool of an upstream as clients see it."""

    upstream: Upstream
    upstream_tool: str  # its name there
    pinned: Mapping[str, Any]  # the approved canonical form
    pin_hash: str
    pin_id: int
    state: PinState

    @cached_property
    def advertised(self) -> OfferedTool:
        return OfferedTool.model_validate({**self.pinned, "name": self.name, "title": self.title})

    def is_open_to(self, caller: Caller) -> bool:
        return is_permitted(caller, self.upstream) and caller.may_use(self.name)

    def writes(self, arguments: Mapping[str, Any]) -> bool:
        return not self.hints.read_only


@dataclass(frozen=True)
class UpstreamSnapshot:
    upstreams: Mapping[str, Upstream] = field(default_factory=dict)
    tools: Mapping[str, ProxiedTool] = field(default_factory=dict)  # by the name that clients see
    held_back: Mapping[str, ProxiedTool] = field(default_factory=dict)  # likewise, those that may not be called
    statuses: Mapping[str, UpstreamStatus] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)  # declaration → why it is not used
    stamp: tuple[Any, ...] = ()


_snapshot = UpstreamSnapshot()
_looked_at = 0.0
_lock = threading.Lock()


def current() -> UpstreamSnapshot:
    """Return the snapshot without a query. It is empty until `refreshed` was called."""
    return _snapshot


def recent() -> UpstreamSnapshot | None:
    """Return the snapshot without a query, or None if it has to be compared with the database first."""
    return _snapshot if time.monotonic() - _looked_at < REFRESH_S else None


def refreshed(*, at_once: bool = False) -> UpstreamSnapshot:
    """Return a snapshot that is at most REFRESH_S seconds old, or with `at_once` a new one if anything has changed."""
    global _snapshot, _looked_at
    with _lock:
        if not at_once and time.monotonic() - _looked_at < REFRESH_S:
            return _snapshot
        with identity.service("gateway"):
            if (stamp := _stamp()) != _snapshot.stamp:
                _snapshot = _read(stamp)
        _looked_at = time.monotonic()
        return _snapshot


def forget() -> None:
    """Forget the snapshot, so that the next look reads everything anew."""
    global _snapshot, _looked_at
    with _lock:
        _snapshot = UpstreamSnapshot()
        _looked_at = 0.0


def is_permitted(caller: Caller, upstream: Upstream) -> bool:
    """Return whether the caller may use an upstream. One that names no personas is for operators only."""
    if not upstream.personas:
        return caller.is_operator
    return caller.is_admin or "*" in upstream.personas or bool(caller.personas & set(upstream.personas))


def exchanges() -> bool:
    """Return whether any upstream wants the caller's token of OIDC_ISSUER exchanged."""
    return any(upstream.credentials == "exchange" for upstream in refreshed().upstreams.values())


def tools_of(caller: Caller) -> dict[str, ProxiedTool]:
    """Return the approved tools that the caller may use, by name."""
    return {name: tool for name, tool in refreshed().tools.items() if tool.is_open_to(caller)}


def _stamp() -> tuple[Any, ...]:
    file = Path(settings.MCP_UPSTREAMS) if settings.MCP_UPSTREAMS else None
    try:
        seen = file.stat() if file else None
    except OSError:
        seen = None
    return (
        str(file),
        (seen.st_mtime_ns, seen.st_size) if seen else None,
        *DeclaredUpstream.objects.aggregate(Count("pk"), Max("updated_at")).values(),
        *PinnedTool.objects.aggregate(Count("pk"), Max("changed_at")).values(),
        *UpstreamStatus.objects.aggregate(Max("listed_at")).values(),
    )


def _read(stamp: tuple[Any, ...]) -> UpstreamSnapshot:
    upstreams, problems = declared()
    for name, problem in problems.items():
        log.error("the upstream %s is not used: %s", name, problem)
    tools: dict[str, ProxiedTool] = {}
    held_back: dict[str, ProxiedTool] = {}
    for pin in PinnedTool.objects.filter(upstream__in=list(upstreams)):
        tool = _proxied(upstreams[pin.upstream], pin)
        (tools if pin.state == PinState.APPROVED else held_back)[tool.name] = tool
    statuses = {status.name: status for status in UpstreamStatus.objects.all()}
    return UpstreamSnapshot(upstreams, tools, held_back, statuses, problems, stamp)


def declared() -> tuple[dict[str, Upstream], dict[str, str]]:
    """Return the valid upstreams by name, and what is wrong with the others.

    A declaration in the file takes precedence over one of the same name in the admin.
    """
    upstreams: dict[str, Upstream] = {}
    problems: dict[str, str] = {}
    for name, text in DeclaredUpstream.objects.filter(is_enabled=True).values_list("name", "declaration"):
        try:
            upstreams[name] = declaration.parse_text(name, text)
        except DomainError as error:  # an invalid declaration must not make the others unusable
            problems[name] = error.message
    if settings.MCP_UPSTREAMS:
        try:
            upstreams |= declaration.from_file(Path(settings.MCP_UPSTREAMS))
        except DomainError as error:
            problems["MCP_UPSTREAMS"] = error.message
    for name in sorted(set(upstreams) & own_prefixes()):
        problems[name] = f"{name}: {collision_of(name)}"
        del upstreams[name]
    return upstreams, problems


def own_names() -> set[str]:
    return {tool.name for name in toolsets() for tool in load_toolset(name)}


def own_prefixes() -> set[str]:
    """Return what stands before the first underscore in the names of our own tools."""
    return {name.partition("_")[0] for name in own_names()}


def collision_of(name: str) -> str:
    """Return why the name of an upstream can't be told from those of our own tools, or "" if it can."""
    own = sorted(tool for tool in own_names() if tool.partition("_")[0] == name)
    text = gettext("is how names of Commonplace’s own tools begin, such as %(tool)s, so agents could confuse them")
    return text % {"tool": own[0]} if own else ""


def _proxied(upstream: Upstream, pin: PinnedTool) -> ProxiedTool:
    approved: dict[str, Any] = pin.approved or {}
    hints = approved.get("annotations") or {}
    title = str(approved.get("title") or hints.get("title") or pin.tool)
    read_only = hints.get("readOnlyHint") is True
    return ProxiedTool(
        name=offered_name(upstream.name, pin.tool),
        toolset=TOOLSET,
        title=title,
        description=str(approved.get("description") or ""),
        choices={},
        hints=Hints(
            read_only=read_only,
            destructive=hints.get("destructiveHint", not read_only) is True,
            idempotent=hints.get("idempotentHint") is True,
            open_world=True,
        ),
        further_toolsets=(upstream.name,),
        upstream=upstream,
        upstream_tool=pin.tool,
        pinned=approved,
        pin_hash=pin.approved_hash,
        pin_id=pin.pk,
        state=PinState(pin.state),
    )
