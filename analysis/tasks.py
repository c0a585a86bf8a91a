"""What background workers do for analyses. Idempotent, safe to be killed at any line."""

from __future__ import annotations

from analysis import sessions


def sweep() -> int:
    return sessions.sweep()
