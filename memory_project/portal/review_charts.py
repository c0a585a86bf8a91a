"""Charts of the review, for This week and the dashboard."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.news import curation
from memory_project.portal.templatetags.charts import ChartPoint
from memory_project.web import locale


def age_points(ages: curation.Ages) -> list[ChartPoint]:
    return [ChartPoint(str(label), count) for label, count in ages.counts]


def trend_points(weeks: Sequence[curation.WeekOfReview]) -> dict[str, list[ChartPoint]]:
    labels = [locale.short_day(one.week.monday) for one in weeks]
    return {
        name: [ChartPoint(label, getattr(one, name)) for label, one in zip(labels, weeks, strict=True)]
        for name in ("captured", "decided", "applied")
    }


def agreement_points(weeks: Sequence[curation.WeekOfAgreement]) -> list[ChartPoint]:
    """Return the second decisions by week. Those that disagree are the failed part."""
    return [ChartPoint(locale.short_day(one.week.monday), one.second, one.second - one.agreed) for one in weeks]
