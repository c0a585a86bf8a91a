"""Counts calls of all doors. It costs a comparison while metrics are off."""

from __future__ import annotations

from collections.abc import Callable, Iterable

DOORS = {"mcp-http": "mcp", "mcp-stdio": "mcp", "rest": "rest", "hook": "hook", "portal": "portal", "admin": "portal"}
OUTCOMES = frozenset(
    {"ok", "invalid", "not_found", "conflict", "limit", "degraded", "upstream", "cancelled", "internal"}
)
REFUSED = frozenset({"forbidden", "declined"})
OF_STATUS = {
    401: "refused", 403: "refused", 404: "not_found", 405: "invalid", 409: "conflict", 412: "conflict", 413: "limit",
    429: "limit", 499: "cancelled", 503: "degraded",
}  # fmt: skip
METHODS = frozenset({"get", "head", "post", "put", "patch", "delete", "options"})
OTHER, UPSTREAM = "other", "upstream"  # UPSTREAM: all tools of other servers

Count = Callable[[str, str, str, float], None]
_count: Count | None = None  # None while metrics are off
_tools: set[str] = {"resources/read", UPSTREAM}


def count_with(count: Count | None) -> None:
    global _count
    _count = count


def know(tools: Iterable[str]) -> None:
    """Allow these names of tools as labels. Names that clients make up are counted as OTHER."""
    _tools.update(tools)


def label_of(tool: str) -> str:
    """Return the name of a known tool, or OTHER for a name that a client may have made up."""
    return tool if tool in _tools else OTHER


def tool_called(channel: str, tool: str, code: str, seconds: float) -> None:
    """Count a call over MCP. `code` is that of its error, or "" if it went well."""
    if _count is not None:
        _count(DOORS.get(channel, "mcp"), label_of(tool), outcome_of(code), seconds)


def page_requested(channel: str, page: str, method: str, status: int, code: str, seconds: float) -> None:
    """Count a REST request or a page, by the name of its URL pattern, or "" if the path has none."""
    if _count is not None:
        verb = method.lower() if method.lower() in METHODS else OTHER
        outcome = outcome_of(code) if code and status >= 400 else _outcome_of_status(status)
        _count(DOORS.get(channel, "portal"), f"{page}.{verb}" if page else OTHER, outcome, seconds)


def label_of_task(path: str) -> str:
    """Return the dotted path of a task's function, or OTHER for one that an operator has scheduled."""
    return (
        path if path.startswith(("foundation.", "memories.", "analysis.", "knowledge.", "memory_project.")) else OTHER
    )


def task_done(task: str, is_success: bool, seconds: float) -> None:
    """Count a task of a worker, by the label of its function."""
    if _count is not None:
        _count("worker", task, "ok" if is_success else "error", seconds)


def outcome_of(code: str) -> str:
    if code in REFUSED:
        return "refused"
    if code in OUTCOMES:
        return code
    return "error" if code else "ok"


def _outcome_of_status(status: int) -> str:
    if status < 400:
        return "ok"
    return OF_STATUS.get(status, "invalid" if status < 500 else "internal")
