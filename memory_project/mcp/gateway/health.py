"""The health of upstreams for operators: the state of each, and what is wrong with it and how to mend it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count
from django.utils.translation import gettext

from foundation.database import identity
from memory_project.mcp.gateway import registry
from memory_project.mcp.gateway.declaration import Upstream
from memory_project.mcp.gateway.models import WAITING, DeclaredUpstream, PinnedTool, PinState, UpstreamStatus

OK, FAILING, NEVER, INVALID, DISABLED = "ok", "failing", "never", "invalid", "disabled"
COLORS = {OK: "ok", FAILING: "failed", NEVER: "low", INVALID: "failed", DISABLED: "archived"}  # of badges


def label_of(state: str) -> str:
    return {
        OK: gettext("ok"),
        FAILING: gettext("failing"),
        NEVER: gettext("never reached"),
        INVALID: gettext("invalid"),
        DISABLED: gettext("disabled"),
    }[state]


@dataclass(frozen=True)
class UpstreamFinding:
    name: str  # of an upstream, or MCP_UPSTREAMS for the file
    problem: str
    hint: str


@dataclass(frozen=True, kw_only=True)
class UpstreamState:
    name: str
    upstream: Upstream | None = None  # None if the declaration is disabled or not valid
    declared_id: int | None = None  # of the row in the admin; None for one of the file
    state: str = NEVER
    status: UpstreamStatus | None = None
    approved: int = 0
    waiting: int = 0
    findings: list[UpstreamFinding] = field(default_factory=list)

    @property
    def label(self) -> str:
        return label_of(self.state)

    @property
    def color(self) -> str:
        return COLORS[self.state]

    @property
    def target(self) -> str:
        """Return the command or the host, without arguments, paths and credentials."""
        if self.upstream is None:
            return ""
        return self.upstream.command.rpartition("/")[2] or self.upstream.url.split("/")[2]

    @property
    def reached_at(self) -> datetime | None:
        return self.status.reached_at if self.status else None

    @property
    def resources(self) -> int:
        return len(self.status.resources) + len(self.status.templates) if self.status else 0


@dataclass(frozen=True)
class Health:
    states: Sequence[UpstreamState]
    findings: Sequence[UpstreamFinding]  # of all upstreams, and of the file of declarations


def look() -> Health:
    """Return the state of each declared upstream, by name, also of disabled declarations and those with errors."""
    with identity.service("gateway"):
        upstreams, problems = registry.declared()
        statuses = {status.name: status for status in UpstreamStatus.objects.all()}
        counts: dict[str, dict[str, int]] = defaultdict(dict)
        for pin in PinnedTool.objects.order_by().values("upstream", "state").annotate(count=Count("pk")):
            counts[pin["upstream"]][pin["state"]] = pin["count"]
        rows = {row.name: row for row in DeclaredUpstream.objects.all()}
    states = [
        _state(name, upstreams.get(name), rows.get(name), statuses.get(name), problems, counts[name])
        for name in sorted({*upstreams, *rows})
    ]
    findings = [finding for state in states for finding in state.findings]
    if problem := problems.get("MCP_UPSTREAMS"):
        hint = gettext("Correct the file: none of its servers is used.")
        findings.insert(0, UpstreamFinding("MCP_UPSTREAMS", problem, hint))
    return Health(states, findings)


def _state(
    name: str,
    upstream: Upstream | None,
    row: DeclaredUpstream | None,
    status: UpstreamStatus | None,
    problems: Mapping[str, str],
    counts: Mapping[str, int],
) -> UpstreamState:
    state = NEVER
    if upstream is None:
        state = DISABLED if row is not None and not row.is_enabled else INVALID
    elif status is not None and (status.is_failing or status.reached_at):
        state = FAILING if status.is_failing else OK
    is_of_file = upstream is not None and upstream.is_from_file
    return UpstreamState(
        name=name,
        upstream=upstream,
        declared_id=row.pk if row is not None and not is_of_file else None,
        state=state,
        status=status,
        approved=counts.get(PinState.APPROVED, 0),
        waiting=sum(counts.get(state, 0) for state in WAITING) if upstream is not None else 0,
        findings=[] if state == DISABLED else list(_findings(name, upstream, status, state, problems.get(name, ""))),
    )


def _findings(
    name: str, upstream: Upstream | None, status: UpstreamStatus | None, state: str, problem: str
) -> Iterator[UpstreamFinding]:
    if problem:
        yield UpstreamFinding(name, problem, gettext("Correct the declaration: the server is not used."))
    if upstream is None:
        return
    missing = upstream.missing_variables()
    for variable in missing:
        text = gettext("The environment variable %(name)s is not set.") % {"name": variable}
        yield UpstreamFinding(name, text, gettext("Set it where Commonplace is started, and start it again."))
    if state == FAILING and status is not None and not missing:
        hint = gettext("Test the server. Its tools stay in the lists of agents, and calls fail until it answers.")
        yield UpstreamFinding(name, status.error, hint)
