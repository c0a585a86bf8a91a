"""How lengthy work reports its progress, and learns that nobody is waiting for it any more."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

# Told (completed, total or None, message); raises whatever ends the work when the caller has gone.
Report = Callable[[float, float | None, str], None]

_report: ContextVar[Report | None] = ContextVar("report", default=None)


def listen(report: Report) -> None:
    """Sends the progress of this context there; a door calls it before the work."""
    _report.set(report)


def tell(completed: float, total: float | None = None, message: str = "") -> None:
    if report := _report.get():
        report(completed, total, message)
