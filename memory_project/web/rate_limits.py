"""Rate limits per token, and per person under a persona, over MCP and REST. By default there are none.

Calls are counted in fixed windows: one minute for all calls, one day for writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import connection
from django.utils import timezone

from foundation.database.connections import async_commit
from foundation.operations.errors import TooManyRequests
from foundation.people.caller import Caller

MINUTE, HOUR, DAY = 60, 3_600, 86_400  # seconds
REGISTRATIONS_PER_HOUR = 30  # of OAuth clients, per address
REGISTRATIONS_PER_DAY = 2_000  # from all addresses
MAX_MARKED = 20_000  # keys
INCREMENT = """
    INSERT INTO call_windows (key, starts_at, count) VALUES (%s, %s, 1)
    ON CONFLICT (key, starts_at) DO UPDATE SET count = call_windows.count + 1 RETURNING count"""
MARK_DAY = "INSERT INTO call_windows (key, starts_at, count) VALUES (%s, %s, 1) ON CONFLICT (key, starts_at) DO NOTHING"


_marked_days: dict[str, datetime] = {}  # key → start of the day for which the database has it


@dataclass(frozen=True)
class RateWindow:
    """The state of a limit after a call was counted."""

    name: str  # for example "token-calls"
    unit: str
    quota: int
    count: int
    length_s: int
    reset_s: int  # seconds until the window ends

    @property
    def is_exceeded(self) -> bool:
        return self.count > self.quota

    def error(self) -> TooManyRequests:
        message = f"the limit is {self.quota} {self.unit}: wait {self.reset_s} s"
        return TooManyRequests(message, retry_after_s=self.reset_s)


def check(caller: Caller, *, writes: bool) -> None:
    """Count a call. Raises TooManyRequests if the call exceeds a limit of the caller."""
    for window in count(caller, writes=writes):
        if window.is_exceeded:
            raise window.error()


def count(caller: Caller, *, writes: bool) -> list[RateWindow]:
    """Count a call and return the states of the caller's limits. If one is exceeded, it is the last of the list."""
    windows: list[RateWindow] = []
    for limit in caller.limits:
        kind = limit.key.partition(" ")[0]
        for name, quota, length_s, unit in (
            ("calls", limit.calls_per_minute, MINUTE, "calls a minute"),
            ("writes", limit.writes_per_day if writes else None, DAY, "writing calls a day"),
        ):
            if quota is not None:
                windows.append(_count(f"{limit.key} {name}", quota, length_s, unit, f"{kind}-{name}"))
                if windows[-1].is_exceeded:
                    return windows
    return windows


def check_registration(address: str) -> None:
    """Count the registration of an OAuth client from an address. Raises TooManyRequests."""
    for key, quota, length_s, unit in (
        (f"oauth registrations {address}", REGISTRATIONS_PER_HOUR, HOUR, "registrations an hour"),
        ("oauth registrations", REGISTRATIONS_PER_DAY, DAY, "registrations a day"),
    ):
        window = _count(key, quota, length_s, unit, "registrations")
        if window.is_exceeded:
            raise window.error()


def is_first_of_day(key: str) -> bool:
    """Return whether this is the first call with the key on this day (UTC). Later calls of the day write nothing.

    This process asks the database once a day for each key.
    """
    start = timezone.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if _marked_days.get(key) == start:
        return False
    with async_commit(), connection.cursor() as cursor:
        cursor.execute(MARK_DAY, [key, start])
        is_first = bool(cursor.rowcount == 1)
    if len(_marked_days) >= MAX_MARKED:
        _marked_days.clear()
    _marked_days[key] = start
    return is_first


def _count(key: str, quota: int, length_s: int, unit: str, name: str) -> RateWindow:
    now = timezone.now().timestamp()
    start = int(now // length_s) * length_s
    with async_commit(), connection.cursor() as cursor:
        cursor.execute(INCREMENT, [key, datetime.fromtimestamp(start, UTC)])
        (number,) = cursor.fetchone()
    return RateWindow(name, unit, quota, number, length_s, max(int(start + length_s - now), 1))
