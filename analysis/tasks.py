from __future__ import annotations

import time
from uuid import UUID

from analysis import sessions
from analysis.checks import running

CHECK_SECONDS = 240  # seconds after which a task starts no more checks; less than the queue's timeout
MAX_CHECKS = 500  # maximum number of checks of one task


def delete_expired_sessions() -> int:
    return sessions.delete_expired_sessions()


def run_due_checks() -> str:
    """Run the checks that are due, for about CHECK_SECONDS."""
    return _run(running.due_checks(MAX_CHECKS))


def run_checks_of(record_ids: list[str]) -> str:
    """Run the checks of these memories that are due."""
    return _run(running.due_checks(MAX_CHECKS, [UUID(pk) for pk in record_ids]))


def _run(check_ids: list[UUID]) -> str:
    deadline = time.monotonic() + CHECK_SECONDS
    states = list[str]()
    for pk in check_ids:
        if time.monotonic() > deadline:
            break
        if check := running.run(pk):
            states.append(check.state)
    return ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states))) or "nothing is due"
