"""Pages for operators: dashboard, indexing and audit. Also each user's own activity."""

from __future__ import annotations

import csv
import re
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.template import Context, Template
from django.urls import reverse
from django.utils import timezone, translation

from foundation.operations.errors import Forbidden, Invalid
from foundation.people.caller import Caller
from memories.models import IndexJob, MemoryRecord
from memories.retrieval import index_status
from memory_project.admin.pages import dashboard
from memory_project.audit import statistics
from memory_project.audit.filters import CallFilter
from memory_project.models import AuditEvent, User
from memory_project.portal.templatetags.charts import ChartPoint, bars, spread
from tests.pages import browser

pytestmark = pytest.mark.django_db


def event(**values: Any) -> AuditEvent:
    fields = {
        "email": "alice@example.org",
        "channel": "mcp-http",
        "tool": "memory_recall",
        "outcome": "ok",
        "duration_ms": 10,
    }
    return AuditEvent.objects.create(**{**fields, **values})


def failed_job(unit: Any, error: str = "the provider is away") -> IndexJob:
    now = timezone.now()
    return IndexJob.objects.create(
        source_kind="memory", source_id=unit, status="failed", last_error=error, completed_at=now, trigger_kind="write"
    )


def test_percentiles_and_error_shares_are_computed_per_tool(alice: Caller) -> None:
    for ms in range(1, 101):
        event(duration_ms=ms)
    event(tool="memory_manage", outcome="error", duration_ms=5)
    recall, manage = statistics.by_tool(CallFilter().rows())
    assert (recall["tool"], recall["calls"], recall["p50"], recall["p95"]) == ("memory_recall", 100, 50.5, 95.05)
    assert (manage["failed"], manage["share"]) == (1, 1.0)
    assert statistics.overall(CallFilter(tool="nothing").rows())["share"] == 0


@pytest.mark.parametrize(("span", "slots"), [("hour", 2), ("day", 25), ("week", 8), ("month", 31)])
def test_the_timeline_has_no_gaps(span: str, slots: int) -> None:
    event()
    event(outcome="refused")
    event(at=timezone.now() - timedelta(days=90))
    points = statistics.timeline(CallFilter(span=span))
    assert len(points) == slots
    assert sum(n for _, n, _ in points) == 2
    assert points[-1][1:] == (2, 1)


def test_activity_shows_only_own_calls(alice_user: User, olga_user: User) -> None:
    event(message="refused because of this")
    assert "refused because of this" in browser(alice_user).get(reverse("activity")).content.decode()
    outsider_page = browser(olga_user).get(reverse("activity") + "?person=alice@example.org")
    assert {row.email for row in outsider_page.context["page"].rows} == {"olga@example.org"}


def test_the_audit_filters_and_exports_without_formulas(ada_user: User) -> None:
    event(tool="=HYPERLINK(1)")
    event(outcome="error", email="bob@example.org")
    client = browser(ada_user)
    page = client.get(reverse("admin:audit") + "?outcome=error&span=day")
    assert [row.email for row in page.context["page"].rows] == ["bob@example.org"]
    response = client.get(reverse("admin:audit"), {"export": "csv"})
    rows = list(csv.DictReader(b"".join(response.streaming_content).decode().splitlines()))  # type: ignore[attr-defined]
    assert {row["tool"] for row in rows} == {"'=HYPERLINK(1)", "memory_recall", "sign-in", "admin.audit"}


@pytest.mark.parametrize("query", ["?span=ever&outcome=odd", "?after=nonsense", "?tool=%00&person=%00"])
def test_invalid_filters_cause_no_server_error(alice_user: User, query: str) -> None:
    assert browser(alice_user).get(reverse("activity") + query).status_code in (200, 400)


def test_the_dashboard_shows_counts_and_coverage(ada_user: User, fact: MemoryRecord) -> None:
    event()
    page = browser(ada_user).get(reverse("admin:index"))
    assert page.context["trends"]["memories"][-1].value == 1
    assert page.context["calls"]["calls"] == 2  # the event above and the sign-in
    assert page.context["index"] == {"share": 1.0, "is_degraded": False}


def test_the_dashboard_has_one_figure_for_the_whole_index() -> None:
    memories = index_status.Coverage("memory", expected=4, indexed=1, open_jobs=0, failures=0)
    findings = index_status.Coverage("finding", expected=4, indexed=4, open_jobs=0, failures=0)
    assert dashboard.whole_index([memories, findings]) == {"share": 0.625, "is_degraded": True}
    assert dashboard.whole_index([]) == {"share": 1.0, "is_degraded": False}


def test_failures_are_grouped_retried_and_dismissed(ada: Caller, ada_user: User, fact: MemoryRecord) -> None:
    failed_job(fact.pk)
    failed_job(fact.pk, "the text is odd")
    assert [(cause["last_error"], cause["n"]) for cause in index_status.causes()] == [
        ("the provider is away", 1),
        ("the text is odd", 1),
    ]
    client = browser(ada_user)
    assert "the text is odd" in client.get(reverse("admin:indexing")).content.decode()
    client.post(reverse("admin:indexing-act"), {"act": "dismiss", "kind": "memory", "cause": "the text is odd"})
    client.post(reverse("admin:indexing-act"), {"act": "retry", "kind": "memory", "cause": "the provider is away"})
    assert index_status.causes() == []
    assert IndexJob.objects.get(status="pending").trigger_kind == "manual_retry"


def test_reindexing_queues_every_row(ada: Caller, fact: MemoryRecord) -> None:
    assert index_status.reindex(ada, kind="memory") == 1
    assert {row.kind: row.verdict for row in index_status.coverage("any")} == {
        "catalog text": "healthy",
        "finding": "healthy",
        "memory": "indexing",
        "observation": "healthy",
        "reflection": "healthy",
    }


def test_only_admins_manage_the_index(alice: Caller) -> None:
    for action in (
        partial(index_status.reindex, kind="memory"),
        partial(index_status.retry, kind="memory", cause=""),
        partial(index_status.dismiss, kind="memory", cause=""),
    ):
        with pytest.raises(Forbidden):
            action(alice)


def test_an_unknown_kind_is_rejected(ada: Caller) -> None:
    with pytest.raises(Invalid) as caught:
        index_status.reindex(ada, kind="things")
    assert caught.value.field == "kind"


def test_throughput_counts_the_last_hour() -> None:
    now = timezone.now()
    job = failed_job("00000000-0000-4000-8000-000000000001")
    IndexJob.objects.filter(pk=job.pk).update(
        status="succeeded",
        created_at=now - timedelta(seconds=9),
        started_at=now - timedelta(seconds=3),
        completed_at=now,
    )
    points, took = index_status.throughput()
    assert sum(n for _, n in points) == 1
    assert (round(took["worked"]), round(took["waited"])) == (3, 6)


def test_a_chart_has_one_bar_per_point() -> None:
    drawn = bars([ChartPoint("a", 10, 5), ChartPoint("b", 0)], "Title", "Things", "bad")
    assert [bar["height"] for bar in drawn["bars"]] == [55.0, 0.0]
    assert drawn["bars"][0]["bad_height"] == 55.0
    assert bars([], "Title", "Things")["is_empty"]


@pytest.mark.parametrize("chart", ["bars points 'Title' 'Things' 'bad'", "spread points 'Title'"])
def test_numbers_of_a_chart_have_a_point_in_every_language(chart: str) -> None:
    template = Template("{% load charts %}{% " + chart + " %}")
    with translation.override("de"):
        drawn = template.render(Context({"points": [ChartPoint("a", 7, 2), ChartPoint("b", 3), ChartPoint("c", 5)]}))
    numbers = re.findall(r' (?:x|y|x1|x2|y1|y2|width|height)="([^"]*)"', drawn)
    assert any("." in number for number in numbers)
    assert not [number for number in numbers if not re.fullmatch(r"-?\d+(\.\d+)?", number)]


def test_a_spread_has_one_row_per_value() -> None:
    drawn = spread([ChartPoint("business_context_of_something_long", 40), ChartPoint("b", 10)], "category")
    assert [row["width"] for row in drawn["rows"]] == [230.0, 57.5]
    assert drawn["rows"][0]["name"] == "business_context_of_som…"
