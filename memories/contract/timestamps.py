"""Parsing of timestamps in requests."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime


def parse_timestamp(text: str) -> datetime | None:
    """Parse an ISO 8601 date or time. Return None if the text is neither.

    A date means the end of that day. Dates, and times without a zone, are in the zone of the setting TIME_ZONE.
    """
    try:
        day = parse_date(text) if len(text) <= 10 else None
        instant = datetime.combine(day, datetime.max.time()) if day else parse_datetime(text)
    except ValueError:
        return None
    if instant is None:
        return None
    return timezone.make_aware(instant, timezone.get_default_timezone()) if timezone.is_naive(instant) else instant
