"""Progress reports of long-running work to the channel that started the work."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

# Called with (completed, total or None, message). It may raise an exception to end the work, for example because the
# client has disconnected.
Report = Callable[[float, float | None, str], None]

_report: ContextVar[Report | None] = ContextVar("report", default=None)


def listen(report: Report) -> None:
    """Send progress reports of the current context to `report`. Channels call this before they start the work."""
    _report.set(report)


def tell(completed: float, total: float | None = None, message: str = "") -> None:
    if report := _report.get():
        report(completed, total, message)
