"""Knowledge debt and interviews at their doors: pages, REST and MCP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from foundation.people.caller import WIPE, Caller
from knowledge.debt import computation, interviews, questions
from knowledge.debt.operations import AskQuestions
from knowledge.models import EntityUse, Insight, InterviewQuestion
from memories import services
from memories.conversation import wipe
from memories.conversation.operations import Wipe
from memories.operations import Remember
from memory_project.management.commands.rebuild_debt import Command
from memory_project.mcp.server import build_server
from memory_project.models import User
from tests.knowledge.conftest import ORDERS, cora, cora_user, curators, put, small_catalog
from tests.pages import give, inbox, take_back
from tests.rest_client import client, post

__all__ = ["cora", "cora_user", "curators", "small_catalog"]

pytestmark = pytest.mark.django_db(transaction=True)
ANSWER = "Orders hold one row per order; refunds are separate rows."
QUESTIONS = "/api/v1/interview/questions/"


@pytest.fixture(autouse=True)
def orders(db: None, alice: Caller) -> None:
    put(ORDERS, "datasetProperties", {})
    fact = Remember.read({"content": "Orders from Bern are late.", "entity_urns": [ORDERS]})
    services.remember(alice, fact)
    computation.compute()


def call(caller: Caller, tool: str, **arguments: Any) -> Any:
    server = build_server(toolsets=["memory", "knowledge"], identify=lambda _: caller)
    result: Any = asyncio.run(server.call_tool(tool, arguments))
    return json.loads(result.content[0].text) if result.is_error else result


def signed_in(user: User) -> Client:
    browser = Client()
    browser.force_login(user)
    return browser


def state() -> str:
    return InterviewQuestion.objects.get().state


def test_an_agent_shows_the_questions_and_stores_what_the_person_says(alice: Caller, bob: Caller) -> None:
    assert "questions" not in call(alice, "memory_briefing").structured_content
    briefing = call(alice, "memory_briefing", interview=True)
    (question,) = briefing.structured_content["questions"]
    assert question["question_id"] in briefing.content[0].text
    assert question["reason"] == "no_description"
    given: dict[str, Any] = {"answers": question["question_id"], "insight_text": ANSWER}
    assert call(bob, "capture_insight", **given)["code"] == "not_found"
    short = call(alice, "capture_insight", **{**given, "insight_text": "dunno"})
    assert short["error"].startswith("insight_text: has 5 characters")
    assert state() == "open"
    answered = call(alice, "capture_insight", **given).structured_content
    insight = Insight.objects.get(pk=answered["insight_id"])
    assert (insight.record.content, insight.record.entity_urns) == (ANSWER, [ORDERS])
    assert call(alice, "capture_insight", **given)["code"] == "conflict"


def test_an_agent_passes_on_that_the_person_does_not_know(alice: Caller) -> None:
    (question,) = call(alice, "memory_briefing", interview=True).structured_content["questions"]
    said = call(alice, "capture_insight", answers=question["question_id"], insight_text="unknown").structured_content
    assert (said["status"], state(), Insight.objects.count()) == ("unknown", "unknown", 0)


def test_the_rest_api_asks_answers_and_undoes_for_the_person_alone(
    alice_user: User, olga_user: User, cora_user: User
) -> None:
    alice, olga, cora = client(alice_user), client(olga_user), client(cora_user)
    (question,) = post(alice, QUESTIONS, {}).json()["questions"]
    address = f"{QUESTIONS}{question['question_id']}/"
    for other in (olga, cora):
        assert other.get(QUESTIONS).json()["items"] == []
        for act, body in (("answer", {"content": ANSWER}), ("pass", {}), ("undo", {})):
            assert post(other, f"{address}{act}/", body).status_code == 404
    assert post(alice, f"{address}answer/", {"content": "x"}).status_code == 400
    assert post(alice, f"{address}pass/", {"because": "bored"}).status_code == 400
    answered = post(alice, f"{address}answer/", {"content": ANSWER}).json()
    assert answered["question"]["state"] == "answered"
    assert post(alice, f"{address}undo/", {}).json()["state"] == "open"
    assert alice.get(f"{QUESTIONS}?state=open").json()["items"][0]["question_id"] == question["question_id"]
    assert post(alice, QUESTIONS, {"person": cora_user.email}).status_code == 403


def test_the_rest_api_lists_the_debt_for_curators(alice_user: User, cora_user: User) -> None:
    assert client(alice_user).get("/api/v1/debt/").status_code == 403
    (row,) = client(cora_user).get("/api/v1/debt/", {"query": "orders"}).json()["items"]
    assert (row["urn"], row["has_description"], row["calls"]) == (ORDERS, False, 0)
    assert row["experts"] == [{"email": alice_user.email, "why": "author"}]
    assert client(cora_user).get("/api/v1/debt/", {"reason": "x"}).status_code == 400


def test_a_curator_asks_from_the_list_and_the_person_answers_on_the_page(
    alice_user: User, cora_user: User, olga_user: User, bob_user: User
) -> None:
    curator, alice = signed_in(cora_user), signed_in(alice_user)
    assert alice.get(reverse("debt")).status_code == 403
    assert alice.post(reverse("ask-about"), {"person": "bob@example.org", "entity": ORDERS}).status_code == 403
    assert b"sales.orders" in curator.get(reverse("debt")).content
    curator.post(reverse("ask-about"), {"person": olga_user.email, "entity": ORDERS})
    assert not InterviewQuestion.objects.exists()  # no shared persona
    curator.post(reverse("ask-about"), {"person": alice_user.email, "entity": ORDERS})
    question = InterviewQuestion.objects.get()
    assert b"question for you" in alice.get(reverse("this-week")).content
    assert b"asked by" in alice.get(inbox("question")).content
    assert b"sales.orders" in curator.get(reverse("interview"), {"person": alice_user.email}).content
    bob = signed_in(bob_user)
    for verdict in ("answer", "skip", "unknown"):
        values = {"content": ANSWER} if verdict == "answer" else {}
        assert "you have no such question" in give(bob, "question", verdict, question.pk.hex, **values)
    assert "no such verdict" in take_back(bob, "question", question.pk.hex)
    assert (state(), Insight.objects.count()) == ("open", 0)
    give(alice, "question", "skip", question.pk.hex)
    assert state() == "skipped"
    take_back(alice, "question")
    give(alice, "question", "answer", question.pk.hex, content=ANSWER)
    assert Insight.objects.get().record.content == ANSWER


def test_a_curator_takes_a_question_back(cora: Caller, cora_user: User, alice: Caller) -> None:
    (question,) = interviews.ask(cora, AskQuestions.read({"person": alice.email, "entity_urn": ORDERS}))
    signed_in(cora_user).post(reverse("take-back-question"), {"question": question.pk.hex})
    assert state() == "closed"
    assert not questions.open_questions(alice).exists()


def test_the_debt_is_computed_by_a_command(capsys: Any, alice: Caller) -> None:
    write: Callable[..., Any] = Command().handle
    write(all=True)
    assert "rows of debt" in capsys.readouterr().out


def test_wiping_a_person_deletes_their_questions_and_hides_whom_they_asked(alice: Caller, cora: Caller) -> None:
    for person, asker in ((alice, cora), (cora, cora)):
        interviews.ask(asker, AskQuestions.read({"person": person.email, "entity_urn": ORDERS}))
    EntityUse.objects.create(urn=ORDERS, persona="sales", owner=cora.email, week="2026-01-05", calls=1)
    wipe.request_wipe(replace(cora, rights=cora.rights | {WIPE}), Wipe(user_id=cora.email, confirm=True))
    left = InterviewQuestion.objects.get()
    assert left.owner == alice.email
    assert left.asked_by != cora.email
    assert not EntityUse.objects.exists()
