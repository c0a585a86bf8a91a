"""The state of the review for a curator: ages, people who wait, agreement between curators, and trends by week."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from django.db.models import Count, Min, Q, QuerySet, Value
from django.db.models.functions import TruncWeek
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from foundation.database.queryset_sql import CompiledQuery
from foundation.people.caller import Caller
from knowledge.debt.queries import Debt, DebtFilter, debt_page
from knowledge.insights import queries
from knowledge.models import Decision, DecisionKind, Insight
from knowledge.news.period import NewsPeriod, Week, last_weeks

MAX_DEBTS = 5  # maximum number of entities listed with what is missing about them
MAX_PEOPLE = 10  # maximum number of authors and of curators listed
WEEKS = 8  # number of weeks in the trends
# upper limits of the ages, in days, and their labels; None: no limit
AGES: Sequence[tuple[int | None, Promise]] = (
    (1, gettext_lazy("Up to a day")),
    (3, gettext_lazy("1 to 3 days")),
    (7, gettext_lazy("3 to 7 days")),
    (14, gettext_lazy("1 to 2 weeks")),
    (30, gettext_lazy("2 to 4 weeks")),
    (None, gettext_lazy("Older than 30 days")),
)


@dataclass(frozen=True)
class WaitingInsights:
    """A person, the number of insights that wait for or by them, and when the oldest was captured.

    The person is "" for insights that are not handed over to anybody.
    """

    person: str
    count: int
    oldest: datetime


@dataclass(frozen=True)
class WeekOfReview:
    """The numbers of insights that were proposed and applied, and of decisions, in one week."""

    week: Week
    captured: int = 0
    applied: int = 0
    decided: int = 0


@dataclass(frozen=True)
class WeekOfAgreement:
    """Decisions on insights that another curator had decided before, and how many of them agree with that one."""

    week: Week
    second: int = 0
    agreed: int = 0


@dataclass(frozen=True)
class Ages:
    oldest: datetime | None  # when the insight that has waited longest was captured
    counts: Sequence[tuple[Promise, int]]


def ages(caller: Caller) -> Ages:
    """Return the numbers of waiting insights by age."""
    now = timezone.now()
    filters: dict[str, Any] = {}
    newest = now + timedelta(days=1)  # clocks of machines differ, so an insight may seem to be from the future
    for index, (days, _) in enumerate(AGES):
        oldest = now - timedelta(days=days) if days else None
        rule = Q(record__created_at__lte=newest)
        filters[f"age_{index}"] = Count("pk", filter=rule & Q(record__created_at__gt=oldest) if oldest else rule)
        newest = oldest or newest
    found = queries.waiting(caller).order_by().aggregate(oldest=Min("record__created_at"), **filters)
    return Ages(found["oldest"], [(label, found[f"age_{index}"]) for index, (_, label) in enumerate(AGES)])


def waiting_by(caller: Caller, column: str) -> list[WaitingInsights]:
    """Return who has waited longest, by `record__created_by` (authors) or `assignee` (curators)."""
    rows = queries.waiting(caller).order_by().values(column)
    people = rows.annotate(count=Count("pk"), oldest=Min("record__created_at")).order_by("oldest", column)
    return [WaitingInsights(row[column], row["count"], row["oldest"]) for row in people[:MAX_PEOPLE]]


def largest_debts(caller: Caller) -> Sequence[Debt]:
    """Return the entities about which most is missing, largest debt first, as of the last computation."""
    return debt_page(caller, DebtFilter(), size=MAX_DEBTS).rows


def trend(caller: Caller, week: Week) -> list[WeekOfReview]:
    """Return the weeks up to `week`, oldest first, with what happened to insights that the caller may see."""
    weeks = last_weeks(week, WEEKS)
    period = NewsPeriod(weeks[0].period.start, week.period.end)
    visible = Insight.objects.visible_to(caller).order_by()
    parts = [
        _weekly("captured", visible.filter(period.holds("record__created_at")), "record__created_at"),
        _weekly("applied", visible.filter(period.holds("applied_at")), "applied_at"),
        _weekly("decided", _decisions(caller, period), "at"),
    ]
    counts: dict[date, dict[str, int]] = {one.monday: {} for one in weeks}
    for row in parts[0].union(*parts[1:], all=True):
        counts[timezone.localdate(row["week"])][row["event"]] = row["total"]
    return [WeekOfReview(one, **counts[one.monday]) for one in weeks]


def _weekly(event: str, rows: QuerySet[Any], column: str) -> Any:
    return rows.order_by().annotate(event=Value(event), week=TruncWeek(column)).values("event", "week").annotate(
        total=Count("pk")
    )  # fmt: skip


def _decisions(caller: Caller, period: NewsPeriod) -> QuerySet[Decision]:
    kinds = (DecisionKind.APPROVED, DecisionKind.REJECTED)
    return Decision.objects.filter(period.holds("at"), kind__in=kinds, insight__in=Insight.objects.visible_to(caller))


def agreement(caller: Caller, week: Week) -> list[WeekOfAgreement]:
    """Return the weeks up to `week`, oldest first, with the decisions that followed one of another curator."""
    weeks = last_weeks(week, WEEKS)
    rows = _decisions(caller, NewsPeriod(weeks[0].period.start, week.period.end)).order_by()
    statement = CompiledQuery()
    decisions = statement.table(
        rows.annotate(week=TruncWeek("at")).values_list("week", "insight_id", "pk", "at", "kind", "by")
    )
    sql = f"""
        SELECT week, count(*) FILTER (WHERE by <> before),
            count(*) FILTER (WHERE by <> before AND kind = kind_before)
        FROM (
            SELECT week, kind, by,
                lag(by) OVER earlier AS before, lag(kind) OVER earlier AS kind_before
            FROM {decisions} decision (week, insight_id, id, at, kind, by)
            WINDOW earlier AS (PARTITION BY insight_id ORDER BY at, id)
        ) compared
        GROUP BY week
    """  # noqa: S608 - generated names
    # PostgreSQL returns the local Monday without a time zone.
    found = {monday.date(): (second, agreed) for monday, second, agreed in statement.run(sql)}
    return [WeekOfAgreement(one, *found.get(one.monday, (0, 0))) for one in weeks]
