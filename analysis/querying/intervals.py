"""Time intervals such as "7 days", and grouping of times into buckets of that length."""

from __future__ import annotations

import re
from typing import Any

from analysis.querying.filters import cast
from foundation.operations.errors import Invalid

INTERVAL = re.compile(r"(?:([0-9]{1,4})\s+)?(second|minute|hour|day|week|month|quarter|year)s?", re.IGNORECASE)
MONTHS = {"month": 1, "quarter": 3, "year": 12}
EPOCH = "2001-01-01T00:00:00+00:00"  # a Monday, so that weeks begin on Mondays

FORM = '\'YYYY-MM-DD"T"HH24:MI:SS"Z"\''

# Computes the start of the bucket that contains a time. The number of full months since the origin, which is negative
# for earlier times, divided by the months in a bucket and rounded down, is the number of buckets after the origin.
BY_MONTHS = """
    (SELECT to_char((origin + floor((k - (t < origin + k * interval '1 month')::int) / {months}::numeric)::int
            * interval '{months} months') AT TIME ZONE 'UTC', {form})
     FROM (SELECT t, origin, (
               (extract(year FROM t AT TIME ZONE 'UTC') - extract(year FROM origin AT TIME ZONE 'UTC')) * 12
               + extract(month FROM t AT TIME ZONE 'UTC') - extract(month FROM origin AT TIME ZONE 'UTC'))::int AS k
           FROM (SELECT ({time}) AS t, %s::timestamptz AS origin) AS given) AS counted)
"""


def parse(text: str, path: str) -> tuple[int, str]:
    """Return the number and the unit of an interval. A unit without a number means one. Raises Invalid."""
    match = INTERVAL.fullmatch(text.strip())
    if not match or (match[1] and int(match[1]) == 0):
        raise Invalid(
            f'Invalid interval: "{text[:40]}"',
            field=path,
            allowed='for example "7 days", "1 week", "6 hours", "month"',
        )
    return int(match[1] or 1), match[2].lower()


def as_sql(text: str, path: str) -> str:
    number, unit = parse(text, path)  # an int and one of the fixed units, so the result is safe in SQL
    return f"{number * 3} months" if unit == "quarter" else f"{number} {unit}"


def bucket_sql(name: str, bucket: str, path: str, origin: str = EPOCH) -> tuple[str, list[Any]]:
    """Return SQL for the start of the bucket that contains a field's time, as text, or NULL if the value is no time.

    One bucket begins at `origin`. The other buckets precede and follow it.
    """
    number, unit = parse(bucket, path)
    time, params = cast(name, "timestamptz")
    # date_bin rejects months, quarters and years, because their length varies; BY_MONTHS counts months instead
    if unit not in MONTHS:
        sql = f"to_char(date_bin(%s::interval, ({time}), %s::timestamptz) AT TIME ZONE 'UTC', {FORM})"
        return sql, [as_sql(bucket, path), *params, origin]
    sql = BY_MONTHS.format(time=time, months=number * MONTHS[unit], form=FORM)
    return sql, [*params, origin]
