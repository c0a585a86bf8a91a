"""Weeks, as the page This week and the weekly mail show them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Invalid

WEEK = timedelta(days=7)
FIRST_DAY = date(2000, 1, 3)  # Monday of the earliest week that can be shown
NAME = re.compile(r"(\d{4})-W(\d{2})", re.ASCII)


@dataclass(frozen=True)
class NewsPeriod:
    """The time from `start` until before `end`."""

    start: datetime
    end: datetime

    def holds(self, column: str) -> Q:
        """Return the condition that a timestamp lies in the period."""
        return Q(**{f"{column}__gte": self.start, f"{column}__lt": self.end})


@dataclass(frozen=True)
class Week:
    """A week from Monday to Sunday in the current time zone."""

    monday: date

    @classmethod
    def current(cls) -> Week:
        today = timezone.localdate()
        return cls(today - timedelta(days=today.weekday()))

    @classmethod
    def named(cls, name: str) -> Week:
        """Return the week with an ISO 8601 name such as 2026-W48. An empty name means the current week.

        Raises Invalid unless it is a week since 2000 that has begun.
        """
        if not name:
            return cls.current()
        current = cls.current()
        match = NAME.fullmatch(name)
        try:
            monday = date.fromisocalendar(int(match[1]), int(match[2]), 1) if match else None
        except ValueError:
            monday = None
        if monday is None or not FIRST_DAY <= monday <= current.monday:
            message = gettext("%(week)s is not a week that can be shown") % {"week": repr(name[:20])}
            allowed = gettext("2000-W01 to %(week)s") % {"week": current.name}
            raise Invalid(message, field="week", allowed=allowed)
        return cls(monday)

    @property
    def name(self) -> str:
        year, number, _ = self.monday.isocalendar()
        return f"{year}-W{number:02}"

    @property
    def sunday(self) -> date:
        return self.monday + timedelta(days=6)

    @property
    def is_current(self) -> bool:
        return self == Week.current()

    @property
    def previous(self) -> Week | None:
        return Week(self.monday - WEEK) if self.monday > FIRST_DAY else None

    @property
    def next(self) -> Week | None:
        return None if self.is_current else Week(self.monday + WEEK)

    @property
    def period(self) -> NewsPeriod:
        return NewsPeriod(_start(self.monday), _start(self.monday + WEEK))


def _start(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time()))


def last_seven_days() -> NewsPeriod:
    now = timezone.now()
    return NewsPeriod(now - WEEK, now)


def last_weeks(week: Week, count: int) -> list[Week]:
    """Return `count` weeks up to and including `week`, oldest first, without those before the earliest week."""
    mondays = [week.monday - age * WEEK for age in reversed(range(count))]
    return [Week(monday) for monday in mondays if monday >= FIRST_DAY]
