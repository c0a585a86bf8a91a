"""The review queue: filters, sorting, groups of near-duplicates, and the closest existing memory."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from foundation.operations.errors import Conflict, NotFound
from foundation.people.caller import Caller
from knowledge.insights.capture import capture
from knowledge.insights.lifecycle import set_replaced
from knowledge.insights.similar_claims import closest_memories
from knowledge.models import Insight
from knowledge.operations import Capture
from knowledge.review import decisions, suggested
from knowledge.review.queue import Queue
from knowledge.review.review_page import build_case
from memories import services
from memories.models import Batch, MemoryRecord
from memories.operations import Remember, Supersede
from memories.retrieval.near_duplicates import group_near_duplicates
from memories.texts.contradiction import contradiction
from memory_project.models import User
from tests.knowledge.conftest import MART, ORDERS

pytestmark = pytest.mark.usefixtures("small_catalog")
TAG = {"action_type": "add_tag", "detail": "Training"}


def propose(caller: Caller, text: str, **fields: Any) -> Insight:
    values: dict[str, Any] = {"category": "data_quality", "entity_urns": [ORDERS], **fields}
    return capture(caller, Capture.read({"insight_text": text, **values})).insight


@pytest.fixture
def desk(cora_user: User) -> Client:
    client = Client()
    client.force_login(cora_user)
    return client


def test_every_filter_and_every_sort_works(alice: Caller, bob: Caller, cora: Caller) -> None:
    first = propose(alice, "Tills close at ten in Ghent.", confidence="low")
    second = propose(bob, "Refunds arrive a day late.", confidence="high", category="correction", entity_urns=[MART])
    MemoryRecord.objects.filter(pk=first.pk).update(created_at=timezone.now() - timedelta(days=9))
    filters = {
        "q": "ghent tills", "author": "alice@example.org", "confidence": "low", "category": "data_quality",
        "entity": ORDERS, "age": "7+",
    }  # fmt: skip
    for name, value in filters.items():
        assert Queue.of(cora, {name: value}).ids() == [first.pk], name
    assert Queue.of(cora, {"age": "7"}).ids() == [second.pk]
    assert Queue.of(cora, {"sort": "newest"}).ids() == [second.pk, first.pk]
    assert Queue.of(cora, {"sort": "confidence"}).ids() == [second.pk, first.pk]
    assert Queue.of(cora, {"sort": "author"}).ids() == [first.pk, second.pk]
    odd = {"state": "x", "age": "x", "sort": "'; --", "category": "x", "q": "\x00", "assignee": "y"}
    assert Queue.of(cora, odd) == Queue(cora)
    assert Queue.of(cora, {"q": "%"}).ids() == []  # wildcards are literal


def test_the_queue_is_empty_for_others(alice: Caller, olga: Caller, bob: Caller) -> None:
    propose(alice, "Tills close at ten in Ghent.")
    for caller in (olga, bob):
        assert Queue(caller).ids() == []


def test_near_duplicates_are_grouped(settings: Any, alice: Caller, bob: Caller, cora: Caller) -> None:
    texts = (
        "Stores 9001 to 9099 are training tills.",
        "Lead times end at booking.",
        "Stores 9001 to 9099 are for training.",
    )
    rows = [propose(alice, text) for text in texts]
    settings.NEAR_DUPLICATE_COSINE = 0.5
    assert [len(group) for group in group_near_duplicates([row.pk for row in rows], threshold=0.5)] == [2, 1]
    assert Queue(cora).groups() == [[rows[0].pk, rows[2].pk], [rows[1].pk]]
    assert group_near_duplicates([], threshold=0.5) == []


def test_insights_that_differ_in_a_fact_are_not_grouped(settings: Any, alice: Caller, cora: Caller) -> None:
    texts = (
        "The till export of the Ghent store runs at 6 in the morning.",
        "The till export of the Ghent store runs at 8 in the morning.",
        "The till export of the Ghent store never runs at 6 in the morning.",
    )
    first, *others = (propose(alice, text) for text in texts)
    settings.NEAR_DUPLICATE_COSINE = 0.5
    assert Queue(cora).groups() == [[first.pk], *([other.pk] for other in others)]
    assert build_case(cora, first).alike == []
    again = propose(alice, "The till export of the store in Ghent runs at 6 in the morning.")
    assert [insight.pk for insight in build_case(cora, first).alike] == [again.pk]


def test_a_decision_and_its_undo_include_near_duplicates(desk: Client, alice: Caller, cora: Caller) -> None:
    first, second = propose(alice, "Tills close at ten."), propose(alice, "Tills close at ten!")
    desk.post(reverse("review-decide", args=[first.pk, "approve"]), {"also": [second.pk.hex, "nonsense"]})
    assert set(Insight.objects.values_list("state", flat=True)) == {"approved"}
    desk.post(reverse("review-undo", args=[first.pk]))
    assert set(Insight.objects.values_list("state", flat=True)) == {"pending"}


def test_applying_an_insight_only_approves_its_near_duplicates(desk: Client, alice: Caller) -> None:
    """The page shows the changes of the insight, and none of the others'."""
    first, second = propose(alice, "Tills close at ten."), propose(alice, "Tills close at ten!")
    desk.post(reverse("review-decide", args=[first.pk, "apply"]), {"also": [second.pk.hex]})
    assert dict(Insight.objects.values_list("pk", "state")) == {first.pk: "applied", second.pk: "approved"}


def test_the_memory_that_was_proposed_is_not_shown_as_the_closest_one(
    alice: Caller, olga: Caller, cora: Caller
) -> None:
    text = "Orders leave out the sales of training tills."
    services.remember(alice, Remember(content=text, entity_urns=[ORDERS]))
    proposed = propose(alice, text)
    assert closest_memories(cora, [proposed]) == {}
    other = services.remember(
        olga, Remember(content="Orders include the sales of training tills.", visibility="everyone")
    )
    assert closest_memories(cora, [proposed])[proposed.pk].record.pk == other.record.pk


def test_the_closest_memory_is_one_that_the_curator_may_read(alice: Caller, olga: Caller, cora: Caller) -> None:
    older = services.remember(alice, Remember(content="The till export runs at 6 in the morning.")).record
    services.remember(olga, Remember(content="The till export runs at 8 in the morning."))
    waiting = propose(alice, "The till export runs at 9 in the morning.")
    propose(alice, "The till export runs at 9 in the morning, daily.")  # a pending insight is not existing knowledge
    claim = closest_memories(cora, [waiting])[waiting.pk]
    assert (claim.record.pk, claim.conflict) == (older.pk, "9 against 6")
    MemoryRecord.objects.filter(pk=older.pk).update(entity_urns=[ORDERS])
    late_tills = [propose(alice, f"Till {number} is closed late in Ghent.") for number in range(3)]
    # in lists, an insight is compared only with memories about the same entities
    in_a_list = closest_memories(cora, [waiting, *late_tills])
    assert in_a_list[waiting.pk].record.pk == older.pk
    MemoryRecord.objects.filter(pk=older.pk).update(entity_urns=[MART])
    assert waiting.pk not in closest_memories(cora, [waiting, *late_tills])


@pytest.mark.parametrize(
    ("claim", "text", "why"),
    [
        ("The table sales was migrated in March.", "The table sales was migrated in April.", "march against april"),
        ("The load runs on Mondays at night.", "The load runs on Tuesday at night.", "mondays against tuesday"),
        ("The till was replaced in 2024.", "The till was replaced in 2025.", "2024 against 2025"),
        ("Load of 2026-03-01 is complete.", "Load of 2026-04-01 is complete.", "2026-03-01 against 2026-04-01"),
        ("On 3 March the till export ran twice.", "On 5 March the till export ran twice.", ""),  # both may be true
        ("Reason codes 7 and 3 are swapped.", "The handbook of 2023 has the reason codes swapped.", ""),
        ("Peak is week 40, and no changes happen then.", "Peak is week 40. No changes happen then.", ""),
        ("Orders may close late at night.", "Orders will close late at night in June.", ""),
        ("Revenue excludes refunds here.", "Revenue includes refunds here.", "excludes against includes"),
        ("6 of 24 stores are closed.", "6 of 30 stores are closed.", "24 against 30"),
        ("Rooms have more than 12 seats.", "Rooms have more than 20 seats.", "12 against 20"),
        ("The pipe is 5 km long.", "The pipe is 5 miles long.", "5 km against 5 miles"),
        ("Der Rabatt gilt für Bücher.", "Der Rabatt gilt nicht für Bücher.", "“nicht” on one side only"),
        ("Store 12 closes at 8 pm.", "Store 14 closes at 9 pm.", ""),  # about two stores
        ("Hamburg closes at 8 pm.", "Yesterday Munich closed at 9 pm.", ""),
        ("In 2024 there were 12 strikes.", "In 2025 there were 15 strikes.", ""),  # each is true of its year
        ("The load takes 60 minutes.", "The load takes 1 hour.", ""),
        ("The load runs at 6.", "The export runs at 8.", ""),
        ("Refunds do not count.", "Refunds don't count.", ""),
    ],
)
def test_differing_numbers_dates_and_negations_are_contradictions(claim: str, text: str, why: str) -> None:
    assert contradiction(claim, text) == why


def test_a_curator_sets_the_memory_that_an_insight_replaces(
    desk: Client, alice: Caller, olga: Caller, cora: Caller, ada: Caller, fact: MemoryRecord
) -> None:
    insight = propose(alice, "Revenue in the sales mart includes refunds now.")
    page = desk.get(reverse("review-one", args=[insight.pk])).content.decode()
    assert 'data-key="s"' in page
    desk.post(reverse("review-replace", args=[insight.pk]), {"record": fact.pk.hex})
    insight.refresh_from_db()
    assert insight.replaces_id == fact.pk
    foreign = services.remember(olga, Remember(content="What nobody else should see.")).record
    with pytest.raises(NotFound):
        set_replaced(cora, insight_id=insight.pk, record_id=foreign.pk)
    with pytest.raises(Conflict):
        set_replaced(ada, insight_id=insight.pk, record_id=insight.pk)
    desk.post(reverse("review-replace", args=[insight.pk]))
    insight.refresh_from_db()
    assert insight.replaces_id is None


def test_an_insight_can_replace_the_other_correction_of_its_memory(
    desk: Client, alice: Caller, cora: Caller, fact: MemoryRecord
) -> None:
    insight = propose(alice, "Revenue in the sales mart includes refunds now.")
    set_replaced(cora, insight_id=insight.pk, record_id=fact.pk)
    operation = Supersede(record_id=fact.pk, content="Refunds are booked on the day of the return.")
    correction = services.supersede(alice, operation).record
    page = desk.get(reverse("review-one", args=[insight.pk])).content.decode()
    assert "Refunds are booked on the day" in page
    assert page.count('data-key="s"') == 1
    desk.post(reverse("review-replace", args=[insight.pk]), {"record": correction.pk.hex})
    insight.refresh_from_db()
    assert insight.replaces_id == correction.pk


def test_select_all_includes_matching_insights_of_other_pages(desk: Client, alice: Caller) -> None:
    for number in range(40):
        propose(alice, f"Ghent till number {number} closes late on day {number}.")
    lyon = propose(alice, "Something about refunds in Lyon.")
    page = desk.get(reverse("review-list") + "?q=ghent")
    assert (page.context["total"], len(page.context["rows"]) <= 40) == (40, True)
    desk.post(reverse("review-act"), {"act": "approve", "all": "1", "f-q": "ghent", "back_to": "/review/all/"})
    assert Insight.objects.filter(state="approved").count() == 40
    lyon.refresh_from_db()
    assert lyon.state == "pending"


def test_decisions_that_need_a_reason_or_a_selection_do_nothing_without(desk: Client, alice: Caller) -> None:
    insight = propose(alice, "Ghent tills close late.")
    for action in ("reject", "needs_more", "nonsense"):
        desk.post(reverse("review-act"), {"act": action, "ids": [insight.pk.hex]})
    desk.post(reverse("review-act"), {"act": "approve"})
    assert not Batch.objects.exists()


def test_approved_insights_are_applied_together_after_one_preview(desk: Client, alice: Caller, cora: Caller) -> None:
    rows = [propose(alice, f"Till {n} trains.", suggested_actions=[{**TAG, "detail": f"Tag {n}"}]) for n in range(3)]
    impossible = propose(alice, "A column that is none.", suggested_actions=[{**TAG, "target": "column:none"}])
    for row in [*rows, impossible]:
        decisions.approve(cora, insight_id=row.pk)
    form = {"act": "apply", "all": "1", "f-state": "approved", "back_to": "/review/all/?state=approved"}
    preview = desk.post(reverse("review-act"), form)
    page = preview.content.decode()
    assert len(preview.context["preview"].possible) == 3
    assert ("Tag 2" in page, "there is no column" in page) == (True, True)
    assert Insight.objects.filter(state="applied").count() == 0
    ids = [entry.insight.pk.hex for entry in preview.context["preview"].possible]
    desk.post(reverse("review-act"), {"act": "apply", "confirm": "1", "ids": ids, "back_to": "/"})
    assert Insight.objects.filter(state="applied").count() == 3
    batch = Batch.objects.get()
    assert batch.outcomes == ["", "", ""]
    desk.post(reverse("undo-batch", args=[batch.pk]))
    assert set(Insight.objects.filter(pk__in=[row.pk for row in rows]).values_list("state", flat=True)) == {"pending"}


def test_applying_an_insight_twice_changes_nothing(alice: Caller, cora: Caller) -> None:
    """A batch that was killed after applying a row applies that row again."""
    insight = propose(alice, "Tills train.", suggested_actions=[TAG])
    decisions.approve(cora, insight_id=insight.pk)
    first = suggested.apply(cora, insight_id=insight.pk)
    assert suggested.apply(cora, insight_id=insight.pk) == first


def test_the_list_makes_a_bounded_number_of_queries(
    desk: Client, alice: Caller, django_assert_max_num_queries: Any
) -> None:
    for number in range(12):
        propose(alice, f"Ghent till number {number} closes late.")
    desk.get(reverse("review-list"))
    with django_assert_max_num_queries(15):
        desk.get(reverse("review-list"))


def test_more_than_a_month_is_not_more_than_a_week(alice: Caller, cora: Caller) -> None:
    rows = [propose(alice, f"Tills close at {hour} in Ghent.") for hour in ("nine", "ten", "eleven")]
    for row, days in zip(rows, (1, 9, 40), strict=True):
        MemoryRecord.objects.filter(pk=row.pk).update(created_at=timezone.now() - timedelta(days=days))
    assert Queue.of(cora, {"age": "7+"}).ids() == [rows[2].pk, rows[1].pk]
    assert Queue.of(cora, {"age": "30+"}).ids() == [rows[2].pk]


def test_own_insights_are_hidden_only_in_states_that_are_decided(alice: Caller, cora: Caller, ada: Caller) -> None:
    own = propose(cora, "Tills close at ten in Ghent.")
    assert (Queue(cora).ids(), Queue(ada).ids()) == ([], [own.pk])
    decisions.approve(ada, insight_id=own.pk)
    assert Queue(cora, state="approved").ids() == [own.pk]
