"""Questions to authors, which keep an insight out of the queue until answered, and reassignment to a colleague."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse

from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from foundation.people.models import Persona
from foundation.people.permissions import build_caller
from knowledge.insights import queries
from knowledge.insights.capture import capture
from knowledge.mcp_tools.capture import capture_insight
from knowledge.mcp_tools.curate import apply_knowledge
from knowledge.models import Insight
from knowledge.operations import AnswerQuestion, Capture
from knowledge.review import clarifications, decisions
from knowledge.review.queue import Queue
from memory_project.models import User
from tests.conftest import person
from tests.knowledge.conftest import ORDERS

pytestmark = pytest.mark.usefixtures("small_catalog")


@pytest.fixture
def insight(alice: Caller) -> Insight:
    return capture(
        alice, Capture(insight_text="Orders are closed at night.", category="data_quality", entity_urns=[ORDERS])
    ).insight


@pytest.fixture
def colleague(personas: dict[str, Persona], curators: Group) -> User:
    user = person("carl@example.org", personas["sales"], name="Carl Curator", is_staff=True)
    user.groups.add(curators)
    return user


def test_a_question_waits_for_the_author_and_its_answer_for_a_curator(
    alice: Caller, cora: Caller, insight: Insight
) -> None:
    clarifications.request_changes(cora, insight_id=insight.pk, notes="Since when?")
    assert list(queries.waiting(cora)) == []
    assert list(queries.awaiting_authors(cora)) == [insight]
    assert list(clarifications.open_questions(alice)) == [insight]
    clarifications.answer(alice, AnswerQuestion(insight_id=insight.pk, notes="Since March 2026."))
    assert list(queries.waiting(cora)) == [insight]
    entries = [(entry.kind, entry.by, entry.notes) for entry in clarifications.conversation(insight.decisions.all())]
    assert entries == [
        ("needs_more", "cora@example.org", "Since when?"),
        ("answered", "alice@example.org", "Since March 2026."),
    ]


def test_only_curators_ask_and_only_the_author_answers(
    alice: Caller, bob: Caller, olga: Caller, cora: Caller, insight: Insight
) -> None:
    for caller, error in ((bob, Forbidden), (olga, Forbidden), (alice, Forbidden)):
        with pytest.raises(error):
            clarifications.request_changes(caller, insight_id=insight.pk, notes="Why?")
    with pytest.raises(Invalid, match="should clarify"):
        clarifications.request_changes(cora, insight_id=insight.pk, notes="  ")
    with pytest.raises(Conflict, match="no open question"):
        clarifications.answer(alice, AnswerQuestion.read({"insight_id": insight.pk, "notes": "Nobody asked."}))
    clarifications.request_changes(cora, insight_id=insight.pk, notes="Why?")
    for outsider in (bob, olga):
        with pytest.raises(NotFound):
            clarifications.answer(outsider, AnswerQuestion.read({"insight_id": insight.pk, "notes": "Because."}))
    assert list(clarifications.open_questions(bob)) == []


def test_a_decision_closes_the_question(alice: Caller, cora: Caller, insight: Insight) -> None:
    clarifications.request_changes(cora, insight_id=insight.pk, notes="Why?")
    decisions.approve(cora, insight_id=insight.pk)
    with pytest.raises(Conflict, match="approved already"):
        clarifications.request_changes(cora, insight_id=insight.pk, notes="Still: why?")
    assert list(clarifications.open_questions(alice)) == []
    decisions.undo_review(cora, insight_id=insight.pk)
    assert list(queries.waiting(cora)) == [insight]


def test_the_agent_of_the_author_receives_the_question_and_answers(
    alice: Caller, bob: Caller, cora: Caller, insight: Insight
) -> None:
    response = apply_knowledge(cora, "needs_more", insight_ids=[insight.pk.hex], review_notes="Since when?")
    assert response["updated"] == 1
    response = capture_insight(alice, category="correction", insight_text="Another thing about tills.")
    (question,) = response["open_questions"]
    assert (question["question"], question["insight_text"]) == ("Since when?", "Orders are closed at night.")
    assert "open_questions" not in capture_insight(bob, category="correction", insight_text="What Bob has to say.")
    reply = capture_insight(alice, answers=question["insight_id"], insight_text="Since March.")
    assert reply["status"] == "pending"
    assert list(queries.waiting(cora)) != []


def test_the_author_answers_in_the_browser(alice_user: User, alice: Caller, cora: Caller, insight: Insight) -> None:
    clarifications.request_changes(cora, insight_id=insight.pk, notes="Since <when>?")
    client = Client()
    client.force_login(alice_user)
    page = client.get(reverse("my-insights")).content.decode()
    assert ("Questions from curators" in page, "Since &lt;when&gt;?" in page) == (True, True)
    client.post(reverse("answer-question", args=[insight.pk]), {"answer": "Since March."})
    insight.refresh_from_db()
    assert insight.question_at is None
    assert "Questions from curators" not in client.get(reverse("my-insights")).content.decode()


def test_an_insight_is_reassigned_only_to_curators_who_may_decide_it(
    cora: Caller, insight: Insight, colleague: User, bob_user: User, olga_user: User, curators: Group
) -> None:
    olga_user.groups.add(curators)  # a curator, but of another persona
    for email in ("bob@example.org", "olga@example.org", "nobody@example.org", ""):
        with pytest.raises(NotFound, match="can't decide"):
            clarifications.reassign(cora, insight_id=insight.pk, to=email)
    clarifications.reassign(cora, insight_id=insight.pk, to="Carl@example.org ", notes="you know tills")
    carl = build_caller(colleague, channel="test")
    assert Queue(carl, assignee="me").ids() == [insight.pk]
    assert Queue(cora, assignee="me").ids() == []
    assert Queue(cora, assignee="nobody").ids() == []
    assert [user.email for user in clarifications.colleagues(cora)] == ["carl@example.org"]


@pytest.mark.parametrize(
    ("action", "data", "state"),
    [
        ("needs-more", {"reason": "Since when?"}, "questions"),
        ("hand-over", {"to": "carl@example.org"}, "pending"),
    ],
)
def test_questions_and_reassignments_are_sent_from_the_review_page(
    cora_user: User, cora: Caller, insight: Insight, colleague: User, action: str, data: dict[str, Any], state: str
) -> None:
    client = Client()
    client.force_login(cora_user)
    client.post(reverse("review-decide", args=[insight.pk, action]), data)
    assert Queue(cora, state=state).ids() == [insight.pk]


def test_a_colleague_is_not_asked_to_decide_their_own_insight(cora: Caller, colleague: User) -> None:
    carl = build_caller(colleague, channel="test")
    own = capture(carl, Capture(insight_text="Tills are counted at noon.", category="data_quality")).insight
    with pytest.raises(Conflict, match="is the author"):
        clarifications.reassign(cora, insight_id=own.pk, to=colleague.email)
    own.refresh_from_db()
    assert own.assignee == ""
