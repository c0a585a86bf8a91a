"""The desk of a curator: snooze, target age, assignment rules, undo of every decision, and forms sent twice."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from foundation.operations.errors import Conflict, Forbidden, Invalid
from foundation.people.caller import Caller
from foundation.people.models import Persona
from foundation.people.permissions import build_caller
from knowledge.insights import assignment
from knowledge.insights.capture import capture
from knowledge.insights.seen import ChangedMeanwhile, version_of
from knowledge.mcp_tools.curate import apply_knowledge
from knowledge.models import AssignmentRule, Insight
from knowledge.operations import AnswerQuestion, Capture
from knowledge.review import clarifications, decisions, suggested
from knowledge.review.queue import Queue
from knowledge.review.snooze import snooze
from memories.models import Batch, MemoryRecord
from memory_project.models import User
from tests.conftest import person
from tests.knowledge.conftest import MART, ORDERS, put

pytestmark = pytest.mark.usefixtures("small_catalog")
CARL = "carl@example.org"
SALES = "urn:li:domain:sales"
DESCRIBE = {"action_type": "update_description", "target": "column:status", "detail": "Closed includes cancelled."}


def propose(caller: Caller, text: str = "Closed orders include cancelled ones.", **fields: Any) -> Insight:
    values: dict[str, Any] = {"category": "data_quality", "entity_urns": [ORDERS], **fields}
    return capture(caller, Capture.read({"insight_text": text, **values})).insight


@pytest.fixture
def insight(alice: Caller) -> Insight:
    return propose(alice)


@pytest.fixture
def carl_user(personas: dict[str, Persona], curators: Group) -> User:
    user = person(CARL, personas["sales"], name="Carl Curator", is_staff=True)
    user.groups.add(curators)
    return User.objects.get(pk=user.pk)


@pytest.fixture
def carl(carl_user: User) -> Caller:
    return build_caller(carl_user, channel="test")


@pytest.fixture
def desk(cora_user: User) -> Client:
    client = Client()
    client.force_login(cora_user)
    return client


def later(days: int = 3) -> Any:
    return timezone.now() + timedelta(days=days)


def seen_fields(desk: Client, insight: Insight) -> dict[str, str]:
    page = desk.get(reverse("review-one", args=[insight.pk]))
    return {f"seen-{pk}": token for pk, token in page.context["seen"]}


def decide(desk: Client, insight: Insight, act: str, **data: str) -> Any:
    return desk.post(reverse("review-decide", args=[insight.pk, act]), data)


# -- snooze ---------------------------------------------------------------------------------------------------


def test_a_snoozed_insight_returns_by_itself(insight: Insight, cora: Caller, carl: Caller) -> None:
    snooze(cora, insight_id=insight.pk, until=later(), notes="After the audit")
    assert Queue(carl).ids() == []
    assert Queue(carl, state="snoozed").ids() == [insight.pk]
    Insight.objects.filter(pk=insight.pk).update(snoozed_until=timezone.now())
    assert Queue(carl).ids() == [insight.pk]
    assert Queue(carl, state="snoozed").ids() == []


@pytest.mark.parametrize("days", [-1, 0, 400])
def test_a_snooze_ends_within_a_year(insight: Insight, cora: Caller, days: int) -> None:
    with pytest.raises(Invalid, match="until"):
        snooze(cora, insight_id=insight.pk, until=later(days))


def test_only_pending_insights_of_others_can_be_snoozed(insight: Insight, alice: Caller, cora: Caller) -> None:
    with pytest.raises(Forbidden):
        snooze(alice, insight_id=insight.pk, until=later())
    decisions.approve(cora, insight_id=insight.pk)
    with pytest.raises(Conflict, match="approved"):
        snooze(cora, insight_id=insight.pk, until=later())


def test_a_colleague_sees_the_snooze_before_deciding_and_a_decision_ends_it(
    insight: Insight, cora: Caller, carl: Caller
) -> None:
    seen = version_of(insight)
    snooze(cora, insight_id=insight.pk, until=later())
    with pytest.raises(ChangedMeanwhile, match=r"cora@example\.org snoozed it on"):
        decisions.approve(carl, insight_id=insight.pk, seen=seen)
    decisions.approve(carl, insight_id=insight.pk, seen=seen, override=True)
    insight.refresh_from_db()
    assert (insight.state, insight.snoozed_until) == ("approved", None)


def test_every_curator_ends_a_snooze(insight: Insight, cora: Caller, carl: Caller) -> None:
    first = later(2)
    snooze(cora, insight_id=insight.pk, until=first)
    snooze(cora, insight_id=insight.pk, until=later(9))
    decisions.undo_review(cora, insight_id=insight.pk)
    rows = Insight.objects.filter(pk=insight.pk)
    assert rows.get().snoozed_until == first  # undo restores the earlier snooze
    decisions.undo_review(carl, insight_id=insight.pk)
    assert rows.get().snoozed_until is None
    with pytest.raises(Conflict, match="no decision to undo"):
        decisions.undo_review(carl, insight_id=insight.pk)


@pytest.mark.parametrize("data", [{}, {"date": "tomorrow"}, {"date": "2020-01-01"}, {"until": "9999"}])
def test_a_date_that_is_none_is_named(insight: Insight, desk: Client, data: dict[str, str]) -> None:
    response = decide(desk, insight, "snooze", **data)
    assert "Until" in desk.get(response.headers["Location"]).content.decode()
    insight.refresh_from_db()
    assert insight.snoozed_until is None


# -- undo and repeated forms ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "data"),
    [
        ("approve", {}),
        ("reject", {"reason": "Not true"}),
        ("needs-more", {"note": "Since when?"}),
        ("hand-over", {"to": CARL}),
        ("snooze", {"until": "7"}),
    ],
)
def test_the_next_page_offers_to_undo_each_decision(
    insight: Insight, carl: Caller, desk: Client, act: str, data: dict[str, str]
) -> None:
    before = Insight.objects.filter(pk=insight.pk).values().get()
    decide(desk, insight, act, **seen_fields(desk, insight), **data)
    assert Insight.objects.filter(pk=insight.pk).values().get() != before
    page = desk.get(reverse("review"), follow=True).content.decode()
    assert reverse("review-undo", args=[insight.pk]) in page
    desk.post(reverse("review-undo", args=[insight.pk]))
    assert Insight.objects.filter(pk=insight.pk).values().get() == before


def test_a_question_that_was_answered_cannot_be_undone(
    insight: Insight, alice: Caller, cora: Caller, carl: Caller
) -> None:
    clarifications.request_changes(cora, insight_id=insight.pk, notes="Since when?")
    with pytest.raises(Forbidden, match=r"cora@example\.org"):
        decisions.undo_review(carl, insight_id=insight.pk)
    clarifications.answer(alice, AnswerQuestion(insight_id=insight.pk, notes="Since March."))
    with pytest.raises(Conflict, match="no decision to undo"):
        decisions.undo_review(cora, insight_id=insight.pk)


@pytest.mark.parametrize(
    ("act", "data"), [("approve", {}), ("reject", {"reason": "Not true"}), ("needs-more", {"note": "Since when?"})]
)
def test_a_form_that_is_sent_twice_decides_once(insight: Insight, desk: Client, act: str, data: dict[str, str]) -> None:
    fields = seen_fields(desk, insight)
    responses = [decide(desk, insight, act, **fields, **data) for _ in range(2)]
    assert [response.status_code for response in responses] == [302, 302]
    assert insight.decisions.count() == 1


def test_another_reason_from_a_second_tab_is_not_dropped_silently(insight: Insight, desk: Client) -> None:
    fields = seen_fields(desk, insight)
    decide(desk, insight, "reject", **fields, reason="Not true")
    page = decide(desk, insight, "reject", **fields, reason="Known already")
    text = page.content.decode()
    assert page.status_code == 409
    for part in ("in another tab", "You rejected it on", "Known already", "Keep it as it is"):
        assert part in text


def test_a_bulk_form_that_is_sent_twice_starts_one_batch(insight: Insight, desk: Client) -> None:
    form = {"act": "reject", "note": "Known already", "ids": insight.pk.hex}
    first, second = (desk.post(reverse("review-act"), form) for _ in range(2))
    assert first.headers["Location"] == second.headers["Location"]
    assert Batch.objects.count() == 1
    desk.post(reverse("undo-batch", args=[Batch.objects.get().pk]))
    desk.post(reverse("review-act"), form)
    insight.refresh_from_db()
    assert insight.state == "rejected"


@pytest.mark.parametrize(
    ("act", "data"), [("snooze", {"date": "+3"}), ("needs_more", {"note": "Since when?"}), ("hand_over", {"to": CARL})]
)
def test_bulk_actions_can_be_undone(
    insight: Insight, carl: Caller, desk: Client, act: str, data: dict[str, str]
) -> None:
    before = Insight.objects.filter(pk=insight.pk).values().get()
    day = timezone.localdate() + timedelta(days=3)
    data = {name: value.replace("+3", day.isoformat()) for name, value in data.items()}
    desk.post(reverse("review-act"), {"act": act, "ids": insight.pk.hex, **data})
    assert Insight.objects.filter(pk=insight.pk).values().get() != before
    desk.post(reverse("undo-batch", args=[Batch.objects.get().pk]))
    assert Insight.objects.filter(pk=insight.pk).values().get() == before


# -- two curators ---------------------------------------------------------------------------------------------


def test_the_conflict_names_the_colleague_and_offers_to_keep_their_decision(
    insight: Insight, carl: Caller, alice: Caller, desk: Client
) -> None:
    other = propose(alice, "The till export runs at six.")
    fields = seen_fields(desk, insight)
    decisions.reject(carl, insight_id=insight.pk, notes="Too vague")
    page = decide(desk, insight, "approve", **fields)
    text = page.content.decode()
    for part in ("Carl Curator rejected it on", "Keep theirs", reverse("review-one", args=[other.pk]), "override"):
        assert part in text
    assert CARL not in text.split("</main>")[0].split("<h1")[0]


def test_a_curator_is_told_that_a_colleague_has_applied_the_insight(
    alice: Caller, cora: Caller, carl: Caller, desk: Client
) -> None:
    insight = propose(alice, suggested_actions=[DESCRIBE])
    fields = seen_fields(desk, insight)
    decisions.approve(carl, insight_id=insight.pk)
    suggested.apply(carl, insight_id=insight.pk)
    page = decide(desk, insight, "apply", **fields)
    assert page.status_code == 409
    assert "Carl Curator applied it on" in page.content.decode()


# -- target age -----------------------------------------------------------------------------------------------


def test_overdue_insights_are_marked_filtered_and_sorted(
    alice: Caller, cora: Caller, desk: Client, settings: Any
) -> None:
    settings.REVIEW_TARGET_DAYS = 5
    ages = {"late": 6, "young": 1, "urgent": 3}
    rows = {name: propose(alice, f"The {name} export of the tills is broken.") for name in ages}
    for name, age in ages.items():
        MemoryRecord.objects.filter(pk=rows[name].pk).update(created_at=timezone.now() - timedelta(days=age))
    Insight.objects.filter(pk=rows["urgent"].pk).update(target_days=1)
    assert Queue.of(cora, {"age": "overdue"}).ids() == [rows["late"].pk, rows["urgent"].pk]
    assert Queue.of(cora, {"sort": "due"}).ids() == [rows["urgent"].pk, rows["late"].pk, rows["young"].pk]
    entries = Queue(cora).locate(rows["young"]).entries
    assert [(entry.pk, entry.is_overdue) for entry in entries] == [
        (rows["late"].pk, True), (rows["urgent"].pk, True), (rows["young"].pk, False),
    ]  # fmt: skip
    assert desk.get(reverse("review-list")).content.decode().count('"badge low">overdue') == 2


# -- assignment rules -----------------------------------------------------------------------------------------


def rule(caller: Caller, **values: Any) -> AssignmentRule:
    saved, _ = assignment.save_rule(caller, assignment.SaveRule.read({"persona": "sales", "assignee": CARL, **values}))
    return saved


def test_the_most_specific_rule_assigns_an_insight(alice: Caller, cora: Caller, carl: Caller) -> None:
    put(ORDERS, "domains", {"domains": [SALES]})
    rule(cora, category="data_quality", assignee=cora.email, target_days=2)
    assert (propose(alice).assignee, propose(alice, "The mart is late.", entity_urns=[MART]).target_days) == (
        cora.email, 2,
    )  # fmt: skip
    rule(cora, domain_urn=SALES)
    assert propose(alice, "Tills close at ten.").assignee == CARL
    assert propose(alice, "Tills close at six.", entity_urns=[MART]).assignee == cora.email
    rule(cora, entity_urn=ORDERS, assignee=cora.email)
    assert propose(alice, "Tills close at nine.").assignee == cora.email
    assert propose(alice, "Tills close late.", category="correction", entity_urns=[MART]).assignee == ""


def test_a_rule_whose_curator_cannot_review_is_skipped(
    alice: Caller, cora: Caller, carl: Caller, carl_user: User, desk: Client
) -> None:
    rule(cora, entity_urn=ORDERS)
    rule(cora, category="data_quality", assignee=cora.email)
    assert propose(carl).assignee == cora.email  # nobody reviews their own insight
    User.objects.filter(pk=carl_user.pk).update(is_active=False)
    assert propose(alice, "Tills close at ten.").assignee == cora.email
    assert "not in effect" in desk.get(reverse("assignment-rules")).content.decode()


def test_insights_of_a_curator_who_cannot_review_any_more_are_unassigned(
    insight: Insight, cora: Caller, carl: Caller, carl_user: User
) -> None:
    clarifications.reassign(cora, insight_id=insight.pk, to=CARL)
    assert Queue.of(cora, {"assignee": "nobody"}).ids() == []
    carl_user.personas.clear()
    assert Queue.of(cora, {"assignee": "nobody"}).ids() == [insight.pk]
    assert rule(cora, entity_urn=ORDERS, assignee=cora.email).assignee == cora.email
    insight.refresh_from_db()
    assert insight.assignee == cora.email  # the new rule takes it over


def test_rules_belong_to_the_curators_of_the_persona(alice: Caller, olga: Caller, cora: Caller, carl: Caller) -> None:
    for caller, values in ((alice, {}), (cora, {"persona": "supply"})):
        with pytest.raises(Forbidden):
            rule(caller, category="data_quality", **values)
    for values in ({}, {"category": "data_quality", "assignee": "alice@example.org"}, {"domain_urn": ORDERS}):
        with pytest.raises(Invalid):
            rule(cora, **values)
    saved = rule(cora, category="data_quality")
    with pytest.raises(Conflict):
        rule(cora, category="data_quality")
    with pytest.raises(Forbidden):
        assignment.delete_rule(olga, rule_id=saved.pk)


def test_rules_are_edited_on_a_page(insight: Insight, cora: Caller, carl: Caller, desk: Client) -> None:
    page = desk.post(
        reverse("assignment-rules"), {"persona": "sales", "category": "data_quality", "assignee": CARL}, follow=True
    )
    text = page.content.decode()
    assert "1 waiting insight was assigned" in text
    assert "Carl Curator" in text
    (saved,) = AssignmentRule.objects.all()
    form = {"persona": "sales", "entity_urn": "sales.orders", "assignee": CARL, "target_days": "3"}
    desk.post(reverse("assignment-rule", args=[saved.pk]), form)
    saved.refresh_from_db()
    assert (saved.entity_urn, saved.category, saved.target_days) == (ORDERS, "", 3)
    refused = desk.post(reverse("assignment-rules"), {**form, "entity_urn": "no.such.table"})
    assert (refused.status_code, "no.such.table" in refused.content.decode()) == (400, True)
    desk.post(reverse("assignment-rule-delete", args=[saved.pk]))
    assert not AssignmentRule.objects.exists()


# -- the page -------------------------------------------------------------------------------------------------


def test_insights_without_an_entity_are_listed_and_reviewed(alice: Caller, cora: Caller, desk: Client) -> None:
    lost = propose(alice, "Two selling seasons a year.", entity_urns=[])
    propose(alice)
    assert Queue.of(cora, {"entity": "none"}).ids() == [lost.pk]
    response = desk.get(f"{reverse('review')}?entity=none")
    assert str(lost.pk) in response.headers["Location"]
    overview = apply_knowledge(cora, "bulk_review")
    assert (overview["without_entity"], overview["total_pending"]) == (1, 2)
    (row,) = overview["insights"]
    assert apply_knowledge(cora, "approve", insight_ids=[row["id"]], seen={row["id"]: row["seen"]})["updated"] == 1
    assert "without_entity" not in apply_knowledge(cora, "bulk_review")


def test_moving_to_another_insight_replaces_a_part_of_the_page(insight: Insight, desk: Client) -> None:
    address = reverse("review-one", args=[insight.pk])
    headers = {"HX-Request": "true", "HX-Target": "review"}
    part = desk.get(address, headers=headers).content.decode()
    assert part.lstrip().startswith('<div class="desk" id="review"')
    assert "<html" not in part
    assert "<html" in desk.get(address, headers={**headers, "HX-History-Restore-Request": "true"}).content.decode()
    assert "<html" in desk.get(address).content.decode()


def test_the_queries_do_not_grow_with_the_queue(alice: Caller, desk: Client) -> None:
    rows = [propose(alice, f"Fact number {number} about the tills of Ghent.") for number in range(20)]
    addresses = [reverse("review-one", args=[rows[0].pk]), reverse("review-list"), reverse("assignment-rules")]

    def counts() -> list[int]:
        numbers = []
        for address in addresses:
            desk.get(address)
            with CaptureQueriesContext(connection) as queries_of_page:
                desk.get(address)
            numbers.append(len(queries_of_page))
        return numbers

    before = counts()
    for number in range(20, 26):
        propose(alice, f"Fact number {number} about the tills of Ghent.")
    assert counts() == before
    assert max(before) <= 17
