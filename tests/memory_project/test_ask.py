"""The page Ask: what is known, why it was found, and exactly what an agent gets."""

from __future__ import annotations

import asyncio
import html
import re
from typing import Any

import pytest
from django.db import connections
from django.urls import reverse
from django.utils import timezone
from mcp import Client as McpClient

from foundation.people.caller import Caller
from foundation.people.models import Persona, PersonaMembership
from knowledge.catalog.interface import CatalogUnavailable
from knowledge.insights.capture import capture
from knowledge.operations import Capture
from memories import services
from memories.models import Impression, MemoryRecord
from memories.operations import Remember, Verify
from memory_project.mcp.server import build_server
from memory_project.models import AuditEvent, User
from memory_project.portal.search import ask
from tests.knowledge.conftest import ORDERS
from tests.pages import browser

pytestmark = pytest.mark.usefixtures("small_catalog")


def remember(caller: Caller, content: str, **fields: Any) -> MemoryRecord:
    return services.remember(caller, Remember(content=content, **fields)).record


def page(user: User, q: str, status: int = 200, **params: str) -> Any:
    response = browser(user).get(reverse("ask"), {"q": q, **params})
    assert response.status_code == status
    return response


def text_of(response: Any) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


def test_the_page_explains_itself_before_a_question(alice_user: User) -> None:
    assert "Ask as you would ask a colleague" in text_of(page(alice_user, ""))
    assert reverse("ask") in browser(alice_user).get(reverse("my-knowledge")).content.decode()


def test_hits_say_why_they_were_found_and_mark_the_words(alice: Caller, alice_user: User) -> None:
    record = remember(alice, "A refund is booked in the month of the return.", confidence="high")
    remember(alice, "Stores close at ten.")
    services.verify(alice, Verify(record_id=record.pk))
    response = page(alice_user, "When are refunds booked?")
    found = response.context["answer"].memories[0]
    assert found.hit.record == record
    marked = [piece.text for piece in found.pieces if piece.is_match]
    assert marked == ["refund", "booked"]  # as recall sees them: "refund" is a form of "refunds"
    assert "Has all words of your question: refund, booked" in found.why
    assert found.author == "Alice Arden"
    assert any(sentence.startswith("Verified by Alice Arden on ") for sentence in found.trust)
    assert "Its author is sure of it" in found.trust
    assert "<mark>refund</mark>" in response.content.decode()


def test_insights_documents_and_entities_are_listed(alice: Caller, alice_user: User) -> None:
    text = {"insight_text": "Rows of sales.orders appear two days late.", "category": "data_quality"}
    capture(alice, Capture.read({**text, "entity_urns": [ORDERS]}))
    response = page(alice_user, "orders late")
    answer = response.context["answer"]
    assert [found.insight is not None for found in answer.memories] == [True]
    assert ORDERS in [match.urn for match in answer.catalog.entities]
    assert "Insight: Pending" in text_of(response)


@pytest.mark.django_db(transaction=True)
def test_the_agent_view_is_word_for_word_what_an_agent_gets(alice: Caller, alice_user: User) -> None:
    remember(alice, "Refunds are booked in the month\u200b of the return.", entity_urns=[ORDERS])
    remember(alice, "Refunds above 500 euros need an approval.", confidence="low")

    async def call() -> Any:
        async with McpClient(build_server(identify=lambda request: alice)) as client:
            return await client.call_tool("memory_recall", {"query": "refunds"})

    result = asyncio.run(call())
    connections.close_all()
    agent = page(alice_user, "refunds").context["answer"].agent
    assert [block.text for block in result.content] == [agent.delivery.text, *agent.delivery.marks]
    assert result.structured_content == agent.delivery.data
    size = sum(len(block.text.encode()) for block in result.content)
    assert agent.tokens == -(-size // 4)


def test_reading_the_page_is_no_use_of_a_memory(alice: Caller, alice_user: User) -> None:
    record = remember(alice, "Refunds are booked in the month of the return.", entity_urns=[ORDERS])
    before = MemoryRecord.objects.values().get(pk=record.pk)
    assert len(page(alice_user, "refunds").context["answer"].memories) == 1
    assert MemoryRecord.objects.values().get(pk=record.pk) == before
    assert not Impression.objects.exists()
    assert not AuditEvent.objects.filter(tool="memory_recall").exists()


def test_only_readable_memories_are_found(alice: Caller, alice_user: User, olga_user: User) -> None:
    remember(alice, "Refunds are booked in the month of the return.")
    assert len(page(alice_user, "refunds").context["answer"].memories) == 1
    response = page(olga_user, "refunds")
    assert response.context["answer"].memories == []
    assert "month of the return" not in response.content.decode()


def test_an_unknown_answer_can_be_written_down(alice_user: User) -> None:
    response = page(alice_user, "Where are <refunds> & returns kept?")
    assert "Nothing is known about this yet" in text_of(response)
    link = f"{reverse('create-memory')}?content=Where%20are%20%3Crefunds%3E%20%26%20returns%20kept%3F"
    assert link in response.content.decode()
    form = browser(alice_user).get(html.unescape(link))
    assert form.context["form"]["content"].value() == "Where are <refunds> & returns kept?"


def test_hostile_texts_are_shown_as_text(alice: Caller, alice_user: User) -> None:
    hostile = "Refunds <script>alert(1)</script> <img src=x onerror=alert(2)> \u202ereversed\u202c </pre><b>bold</b>"
    remember(alice, hostile)
    source = page(alice_user, "refunds <script>alert(3)</script>").content.decode()
    for part in ("<script>alert", "<img src=x", "<b>bold", "\u202e"):
        assert part not in source
    assert source.count("&lt;script&gt;alert(1)") + source.count("&lt;<mark>script</mark>&gt;") >= 2


def test_the_persona_decides_what_the_agent_may(alice: Caller, alice_user: User, personas: dict[str, Persona]) -> None:
    remember(alice, "Refunds are booked in the month of the return.")
    persona = personas["supply"]
    assert page(alice_user, "refunds", status=403, persona="supply")
    PersonaMembership.objects.create(user=alice_user, persona=persona)
    persona.toolsets = ["graph"]
    persona.save()
    answer = page(alice_user, "refunds", persona="supply").context["answer"]
    assert "not among the tools" in answer.agent.note
    assert answer.agent.delivery.data["count"] == 1
    persona.tools_deny = ["memory_*"]
    persona.save()
    response = page(alice_user, "refunds", persona="supply")
    assert response.context["answer"].agent.delivery is None
    assert "Agents with the persona “supply” may not use memory_recall." in text_of(response)
    assert len(response.context["answer"].memories) == 1  # the person still finds them


def test_the_page_says_what_the_agent_does_not_get(alice: Caller, alice_user: User, settings: Any) -> None:
    settings.ANSWER_BUDGET_BYTES = 2_000
    for number in range(6):
        remember(alice, f"Refunds of store {number} are booked late. " + f"Detail {number}. " * 20)
    stale = remember(alice, "Refunds are booked in the month of the sale.")
    MemoryRecord.objects.filter(pk=stale.pk).update(status="stale", stale_reason="removed", stale_at=timezone.now())
    response = page(alice_user, "refunds booked")
    agent = response.context["answer"].agent
    assert agent.delivery.data["omitted"] + agent.delivery.data["count"] == 6
    assert f"{agent.delivery.data['omitted']} memories were left out" in text_of(response)
    assert "1 stale memory matches, too." in text_of(response)


def test_the_page_says_when_a_part_of_the_search_is_away(
    alice: Caller, alice_user: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise CatalogUnavailable("DataHub did not answer within 5 s")

    remember(alice, "Refunds are booked in the month of the return.")
    settings.EMBEDDING_PROVIDER = "none"
    monkeypatch.setattr(ask, "get_readable_catalog", away)
    response = page(alice_user, "refunds")
    text = text_of(response)
    assert "The search by meaning is not available right now" in text
    assert "The data catalog is not available right now" in text
    assert "DataHub did not answer within 5 s" in text
    assert len(response.context["answer"].memories) == 1
    assert response.context["answer"].agent.delivery.data["degraded"] is True


def test_a_question_that_is_too_long_is_refused_and_kept(alice_user: User) -> None:
    response = page(alice_user, "x" * 4_001, status=400)
    assert "4001" in text_of(response) or "4000" in text_of(response)
    assert response.context["q"] == "x" * 4_001


def test_memories_about_a_named_entity_come_first(alice: Caller, alice_user: User) -> None:
    remember(alice, "Late rows are common.", entity_urns=[ORDERS])
    remember(alice, "Late rows are rare in the archive of late rows.")
    found = page(alice_user, "late rows", about="sales.orders").context["answer"].memories
    assert found[0].hit.record.entity_urns == [ORDERS]
    assert found[0].why[0] == "About the entity that you named"
    assert page(alice_user, "late rows", status=400, about="no.such.table").context["error"]


def test_the_number_of_queries_does_not_grow(
    alice: Caller, alice_user: User, django_assert_max_num_queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        record = remember(alice, f"Refunds of store {number} are booked late.", entity_urns=[ORDERS])
        services.verify(alice, Verify(record_id=record.pk))
    client = browser(alice_user)
    client.get(reverse("ask"), {"q": "refunds"})
    found = client.get(reverse("ask"), {"q": "refunds"}).context["answer"].recall
    monkeypatch.setattr(ask, "recall", lambda *args, **kwargs: found)  # recall has a budget of its own
    with django_assert_max_num_queries(12):
        assert len(client.get(reverse("ask"), {"q": "refunds"}).context["answer"].memories) == 10
