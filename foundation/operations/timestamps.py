"""Parsing of timestamps in requests."""

from __future__ import annotations

from datetime import UTC, datetime, time

from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime


def parse_timestamp(text: str, time_of_date: time = time.max) -> datetime | None:
    """Parse an ISO 8601 date or time. Return None if the text is neither, or not in the years 1 to 9999 in UTC.

    A date means `time_of_date`, by default the end of that day. Dates, and times without a zone, are in the zone of the
    setting TIME_ZONE.
    """
    try:
        day = parse_date(text) if len(text) <= 10 else None
        instant = datetime.combine(day, time_of_date) if day else parse_datetime(text)
    except ValueError:
        return None
    if instant is None:
        return None
    if timezone.is_naive(instant):
        instant = timezone.make_aware(instant, timezone.get_default_timezone())
    return instant if is_storable(instant) else None


def is_storable(instant: datetime) -> bool:
    """Return whether the time is in the years 1 to 9999 in UTC, too."""
    try:
        instant.astimezone(UTC)
    except OverflowError:
        return False
    return True
