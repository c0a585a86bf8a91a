"""How many calls a token, or a person under a persona, may make: off until an admin sets a number.

Counted in fixed windows, a minute for calls and a day for writes; who is refused is told how long to wait.
"""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import connection
from django.utils import timezone

from memories.contract.errors import LimitReached
from memories.database.connections import async_commit
from memories.identity.caller import Caller

MINUTE, DAY = 60, 86_400
BUMP = """
    INSERT INTO call_windows (key, starts_at, count) VALUES (%s, %s, 1)
    ON CONFLICT (key, starts_at) DO UPDATE SET count = call_windows.count + 1 RETURNING count"""


def check(caller: Caller, *, writes: bool) -> None:
    """Counts this call. Raises LimitReached where it is one too many, with the seconds to wait."""
    for limit in caller.limits:
        if limit.calls_per_minute is not None:
            _count(f"{limit.key} calls", limit.calls_per_minute, MINUTE, "calls a minute")
        if writes and limit.writes_per_day is not None:
            _count(f"{limit.key} writes", limit.writes_per_day, DAY, "calls a day that keep or change something")


def _count(key: str, bound: int, window_s: int, unit: str) -> None:
    now = timezone.now().timestamp()
    start = int(now // window_s) * window_s
    with async_commit(), connection.cursor() as cursor:
        cursor.execute(BUMP, [key, datetime.fromtimestamp(start, UTC)])
        (count,) = cursor.fetchone()
    if count > bound:
        wait_s = max(int(start + window_s - now), 1)
        raise LimitReached(f"the limit is {bound} {unit}: wait {wait_s} s")
