"""Charts of the review, for This week and the dashboard."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.news import curation
from memory_project.portal.templatetags.charts import Point
from memory_project.web import locale


def age_points(ages: curation.Ages) -> list[Point]:
    return [Point(str(label), count) for label, count in ages.counts]


def trend_points(weeks: Sequence[curation.WeekOfReview]) -> dict[str, list[Point]]:
    labels = [locale.short_day(one.week.monday) for one in weeks]
    return {
        name: [Point(label, getattr(one, name)) for label, one in zip(labels, weeks, strict=True)]
        for name in ("captured", "decided", "applied")
    }


def agreement_points(weeks: Sequence[curation.WeekOfAgreement]) -> list[Point]:
    """Return the second decisions by week. Those that disagree are the failed part."""
    return [Point(locale.short_day(one.week.monday), one.second, one.second - one.agreed) for one in weeks]
