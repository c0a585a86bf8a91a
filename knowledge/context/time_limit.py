"""Time limit of looking for memories: the response does not wait any longer."""

from __future__ import annotations

import time

from django.db import OperationalError, connection

PATIENCE = 0.6  # share of the remaining time that may be spent waiting for one of several things
CANCELED = "57014"  # PostgreSQL's SQLSTATE for a statement timeout


def set_timeout(deadline: float) -> None:
    """Cancel statements of the current transaction that still run at the deadline, a time of time.monotonic()."""
    left_ms = max(int(1000 * (deadline - time.monotonic())), 1)
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(left_ms)])


def is_canceled(error: OperationalError) -> bool:
    return getattr(error.__cause__, "sqlstate", "") == CANCELED
