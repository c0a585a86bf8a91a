"""Charts of the review, for This week and the dashboard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from knowledge.this_week import curation
from memories.identity.caller import Caller
from memory_project.portal.templatetags.charts import Point
from memory_project.web import locale


def review_charts(caller: Caller, weeks: Sequence[curation.WeekOfReview], *, with_ages: bool = True) -> dict[str, Any]:
    """Return the points of the charts about the review."""
    labels = [locale.short_day(one.week.monday) for one in weeks]
    rows = list(zip(labels, weeks, strict=True))
    ages = curation.ages(caller) if with_ages else []
    return {
        "ages": [Point(str(label), count) for label, count in ages],
        "has_waiting": any(count for _, count in ages),
        "captured": [Point(label, one.captured) for label, one in rows],
        "decided": [Point(label, one.decided) for label, one in rows],
        "applied": [Point(label, one.applied) for label, one in rows],
        "second": [Point(label, one.second, one.second - one.agreed) for label, one in rows],
    }
