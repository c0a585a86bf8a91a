"""Links that narrow a list to a year, month or day.

Only the oldest row is looked up, so that large lists stay fast.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.formats import date_format

MAX_YEARS = 12


@dataclass(frozen=True)
class DateLink:
    title: str
    params: Mapping[str, int]  # the filter, by lookup
    is_current: bool = False


def date_links(rows: QuerySet[Any], field: str, asked: Mapping[str, str]) -> list[DateLink]:
    """Return links to the parts of the period that the filters in `asked` select: years, then months, then days.

    Years are left out if there is only one. `rows` are all rows of the list. A part may turn out to be empty, because
    only the oldest row is looked up.
    """
    today = timezone.localdate()
    year, month, day = (_number(asked.get(f"{field}__{part}")) for part in ("year", "month", "day"))
    if year is None or not 1 <= year <= 9998:
        first = _oldest(rows, field, today)
        if first.year == today.year:
            return [_month(field, first.year, one, is_current=False) for one in range(first.month, today.month + 1)]
        years = range(today.year, max(first.year, today.year - MAX_YEARS) - 1, -1)
        return [DateLink(str(one), {f"{field}__year": one}) for one in years]
    links = [DateLink(str(year), {f"{field}__year": year}, month is None)]
    if month is None or not 1 <= month <= 12:
        months = range(1, (today.month if year == today.year else 12) + 1)
        return links + [_month(field, year, one, is_current=False) for one in months]
    links.append(_month(field, year, month, is_current=day is None))
    last = today.day if (year, month) == (today.year, today.month) else monthrange(year, month)[1]
    for one in range(1, last + 1):
        params = {f"{field}__year": year, f"{field}__month": month, f"{field}__day": one}
        links.append(DateLink(str(one), params, one == day))
    return links


def _month(field: str, year: int, month: int, *, is_current: bool) -> DateLink:
    title = (
        date_format(date(year, month, 1), "YEAR_MONTH_FORMAT") if is_current else date_format(date(year, month, 1), "M")
    )
    return DateLink(title, {f"{field}__year": year, f"{field}__month": month}, is_current)


def _oldest(rows: QuerySet[Any], field: str, today: date) -> date:
    """Return the oldest date, which an index on the column finds at once, or today if there are no rows."""
    found = rows.order_by(field).filter(**{f"{field}__isnull": False}).values_list(field, flat=True).first()
    if isinstance(found, datetime):
        return timezone.localtime(found).date()
    return found or today


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 5 else None
