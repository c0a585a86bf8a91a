"""Rate limits per token, and per person under a persona, over MCP and REST. By default there are none.

Calls are counted in fixed windows: one minute for all calls, one day for writes.
"""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import connection
from django.utils import timezone

from memories.contract.errors import TooManyRequests
from memories.database.connections import async_commit
from memories.identity.caller import Caller

MINUTE, HOUR, DAY = 60, 3_600, 86_400  # seconds
REGISTRATIONS_PER_HOUR = 30  # of OAuth clients, per address
REGISTRATIONS_PER_DAY = 2_000  # from all addresses
INCREMENT = """
    INSERT INTO call_windows (key, starts_at, count) VALUES (%s, %s, 1)
    ON CONFLICT (key, starts_at) DO UPDATE SET count = call_windows.count + 1 RETURNING count"""


def check(caller: Caller, *, writes: bool) -> None:
    """Count a call. Raises TooManyRequests if the call exceeds a limit of the caller."""
    for limit in caller.limits:
        if limit.calls_per_minute is not None:
            _count(f"{limit.key} calls", limit.calls_per_minute, MINUTE, "calls a minute")
        if writes and limit.writes_per_day is not None:
            _count(f"{limit.key} writes", limit.writes_per_day, DAY, "writing calls a day")


def check_registration(address: str) -> None:
    """Count the registration of an OAuth client from an address. Raises TooManyRequests."""
    _count(f"oauth registrations {address}", REGISTRATIONS_PER_HOUR, HOUR, "registrations an hour")
    _count("oauth registrations", REGISTRATIONS_PER_DAY, DAY, "registrations a day")


def _count(key: str, maximum: int, window_s: int, unit: str) -> None:
    now = timezone.now().timestamp()
    start = int(now // window_s) * window_s
    with async_commit(), connection.cursor() as cursor:
        cursor.execute(INCREMENT, [key, datetime.fromtimestamp(start, UTC)])
        (count,) = cursor.fetchone()
    if count > maximum:
        wait_s = max(int(start + window_s - now), 1)
        raise TooManyRequests(f"the limit is {maximum} {unit}: wait {wait_s} s", retry_after_s=wait_s)
