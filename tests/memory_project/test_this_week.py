"""The page This week: what it shows to whom, and for which time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from foundation.operations.errors import Invalid
from foundation.people.caller import Caller
from knowledge.insights.capture import capture
from knowledge.models import Decision, Insight
from knowledge.news import curation
from knowledge.news.period import Week
from knowledge.operations import Appeal, Capture
from knowledge.review import clarifications, decisions
from memories import services
from memories.models import MemoryRecord
from memories.operations import Remember, Supersede
from memory_project.models import User
from tests.pages import browser

pytestmark = pytest.mark.django_db

ORDERS = "urn:li:dataset:(urn:li:dataPlatform:postgres,sales.orders,PROD)"
BUDGET = 12


def text_of(response: Any) -> str:
    return " ".join(response.content.decode().split())


def about_orders(caller: Caller, text: str, **fields: Any) -> MemoryRecord:
    return services.remember(caller, Remember(content=text, entity_urns=[ORDERS], **fields)).record


def propose(caller: Caller, text: str) -> Insight:
    return capture(caller, Capture(insight_text=text, category="data_quality", entity_urns=[ORDERS])).insight


def test_the_page_shows_what_changed_about_entities_that_the_user_uses(
    alice: Caller, bob: Caller, olga: Caller, ada: Caller, alice_user: User, small_catalog: Any
) -> None:
    mine = about_orders(alice, "Orders are counted at midnight.")
    about_orders(bob, "Orders of tills arrive late.")
    about_orders(bob, "A private thought on orders.", visibility="private")
    about_orders(olga, "Orders seen by supply alone.")
    services.supersede(ada, Supersede(record_id=mine.pk, content="Orders are counted at noon."))
    services.remember(bob, Remember(content="Nothing about a table."))
    page = text_of(browser(alice_user).get(reverse("this-week")))
    assert "corrected since</span>" in page
    for text in ("Orders of tills arrive late.", "Orders are counted at midnight."):
        assert text in page
    for text in ("A private thought", "seen by supply", "Nothing about a table"):
        assert text not in page


def test_the_page_shows_the_fate_of_insights_and_open_questions(
    alice: Caller, cora: Caller, alice_user: User, small_catalog: Any
) -> None:
    approved, rejected, asked = (propose(alice, f"Orders of till {number} come late.") for number in range(3))
    decisions.approve(cora, insight_id=approved.pk)
    decisions.reject(cora, insight_id=rejected.pk, notes="The <b>till</b> is closed.")
    for question in ("Which till?", "Since when exactly?"):
        clarifications.request_changes(cora, insight_id=asked.pk, notes=question)
    response = browser(alice_user).get(reverse("this-week"))
    counts = {name: response.context["counts"][name] for name in ("proposed", "approved", "rejected", "applied")}
    assert counts == {"proposed": 3, "approved": 1, "rejected": 1, "applied": 0}
    page = text_of(response)
    assert ("Since when exactly?" in page, "Which till?" in page) == (True, False)
    assert ("&lt;b&gt;till" in page, "<b>till" in page) == (True, False)


def test_a_past_week_shows_what_happened_then_and_nothing_that_waits_now(
    alice: Caller, cora: Caller, alice_user: User, small_catalog: Any
) -> None:
    insight, asked = propose(alice, "Orders come late."), propose(alice, "Orders come twice.")
    decisions.approve(cora, insight_id=insight.pk)
    clarifications.request_changes(cora, insight_id=asked.pk, notes="Since when?")
    earlier = timezone.now() - timedelta(days=14)
    Insight.objects.filter(pk=insight.pk).update(reviewed_at=earlier)
    client = browser(alice_user)
    before_last = Week(Week.current().monday - timedelta(days=14)).name
    page = text_of(client.get(reverse("this-week"), {"week": before_last}))
    assert ("Orders come late." in page, "Since when?" in page) == (True, False)
    page = text_of(client.get(reverse("this-week")))
    assert ("Orders come late." in page, "Since when?" in page) == (False, True)


@pytest.mark.parametrize(
    "name", ["2026-W54", "2026-W00", "1999-W52", "9999-W01", "0000-W01", "x", "2026-48", "２026-W01"]
)
def test_a_week_that_can_not_be_shown_is_refused(name: str, alice_user: User) -> None:
    with pytest.raises(Invalid):
        Week.named(name)
    assert browser(alice_user).get(reverse("this-week"), {"week": name}).status_code == 400


def test_weeks_follow_each_other_without_gaps() -> None:
    week = Week.named("2021-W01")
    assert (week.previous, week.next) == (Week.named("2020-W53"), Week.named("2021-W02"))
    assert week.previous.period.end == week.period.start  # type: ignore[union-attr]
    assert Week.named("2000-W01").previous is None
    assert Week.current().next is None


def test_only_curators_see_the_review(alice_user: User, cora_user: User) -> None:
    assert browser(alice_user).get(reverse("week-of-review")).status_code == 403
    assert reverse("week-of-review") not in text_of(browser(alice_user).get(reverse("this-week")))
    assert browser(cora_user).get(reverse("week-of-review")).status_code == 200


def test_the_review_shows_ages_authors_and_curators_who_wait(
    alice: Caller, olga: Caller, cora: Caller, ada: Caller, cora_user: User, small_catalog: Any
) -> None:
    _, old, older = (propose(alice, f"Orders of till {number} come late.") for number in range(3))
    propose(olga, "Orders of supply come late.")
    for insight, days in ((old, 5), (older, 40)):
        MemoryRecord.objects.filter(pk=insight.pk).update(created_at=timezone.now() - timedelta(days=days))
    clarifications.reassign(ada, insight_id=old.pk, to=cora.email)
    assert [count for _, count in curation.ages(cora).counts] == [1, 0, 1, 0, 0, 1]
    assert [(row.person, row.count) for row in curation.waiting_by(cora, "record__created_by")] == [(alice.email, 3)]
    assert [(row.person, row.count) for row in curation.waiting_by(cora, "assignee")] == [("", 2), (cora.email, 1)]
    page = text_of(browser(cora_user).get(reverse("week-of-review")))
    assert ("Alice Arden" in page, "olga" in page, "Older than 30 days: 1" in page) == (True, False, True)


def test_agreement_counts_decisions_that_follow_another_curator_s(
    alice: Caller, cora: Caller, ada: Caller, small_catalog: Any
) -> None:
    overruled, confirmed, alone = (propose(alice, f"Orders of till {number} come late.") for number in range(3))
    decisions.approve(cora, insight_id=overruled.pk)
    decisions.reject(ada, insight_id=overruled.pk, notes="no", override=True)
    decisions.reject(cora, insight_id=confirmed.pk, notes="no")
    decisions.appeal(alice, Appeal(insight_id=confirmed.pk, notes="but yes"))
    decisions.reject(ada, insight_id=confirmed.pk, notes="still no")
    decisions.approve(cora, insight_id=alone.pk)
    decisions.undo_review(cora, insight_id=alone.pk)
    decisions.approve(cora, insight_id=alone.pk)
    weeks = curation.trend(cora, Week.current())
    assert len(weeks) == curation.WEEKS
    assert (weeks[-1].captured, weeks[-1].decided) == (3, 6)
    agreement = curation.agreement(cora, Week.current())
    assert (agreement[-1].second, agreement[-1].agreed) == (2, 1)


def test_the_number_of_queries_does_not_grow(
    alice: Caller, bob: Caller, cora: Caller, cora_user: User, small_catalog: Any, django_assert_max_num_queries: Any
) -> None:
    client = browser(cora_user)
    for number in range(12):
        about_orders(bob, f"Orders of shop {number} are late.")
        decisions.approve(cora, insight_id=propose(alice, f"Orders of till {number} come late.").pk)
        asked = propose(cora, f"Orders of stall {number} come late.")
        Decision.objects.create(insight=asked, kind="needs_more", by=alice.email, notes="Since when?")
        Insight.objects.filter(pk=asked.pk).update(question_at=timezone.now())
    for address in (reverse("this-week"), reverse("week-of-review"), reverse("admin:index")):
        with django_assert_max_num_queries(BUDGET):
            assert client.get(address).status_code == 200
