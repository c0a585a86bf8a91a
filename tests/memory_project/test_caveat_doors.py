"""Pages, tools and REST resources for caveats from upstream and for the choice of what is attached."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from foundation.people.caller import Caller
from knowledge.models import CaveatWaiver
from memories import services
from memories.models import MemoryRecord
from memories.operations import Verify
from memory_project.mcp.server import build_server
from memory_project.models import AuditEvent, User
from tests.knowledge.caveat_examples import BOARD, TEXT, caveat, chain, field
from tests.pages import browser
from tests.rest_client import client, post

__all__ = ["chain"]
pytestmark = pytest.mark.django_db(transaction=True)
PATH = "orders.amount → daily_revenue.revenue → board.revenue"
REASON = "It is converted there."


def page(opened: Client, name: str = "entity", **query: str) -> str:
    query = query or {"urn": BOARD, "tab": "memories"}
    return " ".join(opened.get(reverse(name), query).content.decode().split())


def call(caller: Caller, tool: str, **arguments: Any) -> Any:
    server = build_server(toolsets=["memory", "knowledge"], identify=lambda _: caller)
    result: Any = asyncio.run(server.call_tool(tool, arguments))
    return result.content[0].text if result.is_error else result.structured_content


@pytest.fixture
def shared(alice: Caller, ada: Caller) -> MemoryRecord:
    """A verified caveat of Alice that everybody may read."""
    record = caveat(alice, "amount", visibility="everyone")
    services.verify(ada, Verify(record_id=record.pk))
    return record


def test_the_page_of_a_derived_entity_shows_and_waives_caveats(
    shared: MemoryRecord, bob_user: User, olga_user: User
) -> None:
    bob, olga = browser(bob_user), browser(olga_user)
    for opened, may in ((bob, True), (olga, False)):
        text = page(opened)
        assert TEXT in text
        assert PATH in text
        assert ("Does not hold here" in text) is may
    form = {"id": shared.pk.hex, "urn": BOARD, "target": field(BOARD, "revenue"), "reason": REASON}
    olga.post(reverse("waive-caveat"), form)
    bob.post(reverse("waive-caveat"), {**form, "reason": " "})
    assert not CaveatWaiver.objects.exists()
    bob.post(reverse("waive-caveat"), form)
    assert PATH not in page(olga)
    assert REASON in page(olga)  # readers see who waived it, and why
    assert "It holds after all" not in page(olga)
    olga.post(reverse("reinstate-caveat"), form)
    assert CaveatWaiver.objects.in_force().exists()
    bob.post(reverse("reinstate-caveat"), form)
    assert PATH in page(olga)


def test_agents_and_programs_waive_caveats(
    shared: MemoryRecord, alice: Caller, bob: Caller, olga: Caller, olga_user: User, alice_user: User
) -> None:
    (listed,) = call(olga, "catalog_entity", urn=BOARD)["caveats"]
    assert (listed["content"], listed["why"]) == (TEXT, f"caveat from upstream: {PATH}")
    assert PATH in call(olga, "memory_briefing", entities=[BOARD])["text"]
    given = {"waives": shared.pk.hex, "entity_urns": [BOARD], "insight_text": REASON}
    assert "only its members and the owner can waive" in call(olga, "capture_insight", **given)
    assert call(bob, "capture_insight", **given)["entity_urn"] == BOARD
    event = AuditEvent.objects.filter(tool="capture_insight", email=bob.email).latest("pk")
    assert event.record_ids == [shared.pk]
    assert REASON not in str(event.arguments)
    assert "caveats" not in call(olga, "catalog_entity", urn=BOARD)
    address = f"/api/v1/memories/{shared.pk.hex}"
    assert post(client(olga_user), f"{address}/reinstate/", {"entity_urns": [BOARD]}).status_code == 403
    assert post(client(alice_user), f"{address}/reinstate/", {"entity_urns": [BOARD]}).status_code == 200
    body = {"entity_urns": [BOARD], "insight_text": REASON}
    assert post(client(olga_user), f"{address}/waive/", body).status_code == 403
    answer = post(client(alice_user), f"{address}/waive/", {**body, "entity_urns": ["urn:li:dataset:nothing"]})
    assert answer.status_code == 400
    assert "entity_urns" in answer.content.decode()
    assert post(client(alice_user), f"{address}/waive/", body).status_code == 200


def test_the_owner_chooses_what_is_attached_at_every_door(
    shared: MemoryRecord, alice: Caller, olga: Caller, alice_user: User, olga_user: User
) -> None:
    given = {"command": "attach", "id": shared.pk.hex, "attachment": "never"}
    assert "only its owner or an admin" in call(olga, "memory_manage", **given)
    call(alice, "memory_manage", **given)
    assert call(olga, "memory_manage", command="get", id=shared.pk.hex)["memory"]["attachment"] == "never"
    address = f"/api/v1/memories/{shared.pk.hex}/attach/"
    assert post(client(olga_user), address, {"attachment": "always"}).status_code == 403
    assert post(client(alice_user), address, {"attachment": "often"}).status_code == 400
    assert post(client(alice_user), address, {"attachment": "always"}).status_code == 200
    owner, reader = browser(alice_user), browser(olga_user)
    form = reverse("change-memory", args=[shared.pk, "attach"])
    reader.post(form, {"attachment": "never"})
    owner.post(form, {"attachment": "often"})
    shared.refresh_from_db()
    assert shared.attachment == "always"
    assert TEXT in page(owner, "my-knowledge", attachment="always")
    assert TEXT not in page(reader, "my-knowledge", attachment="always")  # one's own memories alone
    owner.post(form, {"attachment": "automatic"})
    shared.refresh_from_db()
    assert shared.attachment == "automatic"
    shown = " ".join(owner.get(reverse("memory", args=[shared.pk])).content.decode().split())
    assert "Never attach" in shown
    assert "Never attach" not in reader.get(reverse("memory", args=[shared.pk])).content.decode()
