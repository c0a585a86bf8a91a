"""Spans of time as people write them, and the buckets that they cut time into."""

from __future__ import annotations

import re
from typing import Any

from analysis.querying.filters import cast
from memories.contract.errors import Invalid

INTERVAL = re.compile(r"(?:([0-9]{1,4})\s+)?(second|minute|hour|day|week|month|quarter|year)s?", re.IGNORECASE)
MONTHS = {"month": 1, "quarter": 3, "year": 12}
EPOCH = "2001-01-01T00:00:00+00:00"  # a Monday, so that weeks begin on one

FORM = '\'YYYY-MM-DD"T"HH24:MI:SS"Z"\''

# Whole months between origin and time, one less where the time lies before that many months; then whole buckets.
BY_MONTHS = """
    (SELECT to_char((origin + floor((k - (t < origin + k * interval '1 month')::int) / {months}::numeric)::int
            * interval '{months} months') AT TIME ZONE 'UTC', {form})
     FROM (SELECT t, origin, (
               (extract(year FROM t AT TIME ZONE 'UTC') - extract(year FROM origin AT TIME ZONE 'UTC')) * 12
               + extract(month FROM t AT TIME ZONE 'UTC') - extract(month FROM origin AT TIME ZONE 'UTC'))::int AS k
           FROM (SELECT ({time}) AS t, %s::timestamptz AS origin) AS given) AS counted)
"""


def parse(text: str, path: str) -> tuple[int, str]:
    """Number and unit; a unit alone is one of it. Raises Invalid."""
    match = INTERVAL.fullmatch(text.strip())
    if not match or (match[1] and int(match[1]) == 0):
        raise Invalid(
            f'Invalid interval: "{text[:40]}"',
            field=path,
            allowed='for example "7 days", "1 week", "6 hours", "month"',
        )
    return int(match[1] or 1), match[2].lower()


def as_sql(text: str, path: str) -> str:
    """The interval as PostgreSQL reads it; made of a number and one of our own words."""
    number, unit = parse(text, path)
    return f"{number * 3} months" if unit == "quarter" else f"{number} {unit}"


def bucket_sql(name: str, bucket: str, path: str, origin: str = EPOCH) -> tuple[str, list[Any]]:
    """The beginning of the bucket that a field's time lies in, as text; NULL where it is no time. Buckets are counted
    from the origin, before it too. Months and years differ in length, which date_bin refuses; they are counted."""
    number, unit = parse(bucket, path)
    time, params = cast(name, "timestamptz")
    if unit not in MONTHS:
        sql = f"to_char(date_bin(%s::interval, ({time}), %s::timestamptz) AT TIME ZONE 'UTC', {FORM})"
        return sql, [as_sql(bucket, path), *params, origin]
    sql = BY_MONTHS.format(time=time, months=number * MONTHS[unit], form=FORM)
    return sql, [*params, origin]
