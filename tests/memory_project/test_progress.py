"""Progress and cancellation of long calls, with the SDK's client over stdio's dispatcher and over HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from django.db import connections
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from analysis.models import Action, Ingest
from foundation.people.caller import Caller, system_caller
from knowledge.changesets import delivery
from knowledge.changesets.apply import resume
from knowledge.models import ChangeOutcome, Changeset
from memory_project.accounts.tokens import create_token
from memory_project.mcp.server import build_server
from memory_project.models import AuditEvent, User
from tests.analysis.conftest import api
from tests.fake_rest_api import Api
from tests.knowledge.conftest import ORDERS
from tests.mcp_client import as_caller, content_of
from tests.other_processes import until

__all__ = ["api"]
pytestmark = pytest.mark.django_db(transaction=True)

Reports = list[tuple[float, float | None, str]]
INGEST = {"analysis_id": "slow", "model": "book", "ingest_all": True, "per_page": 2}


@asynccontextmanager
async def in_memory(caller: Caller) -> AsyncIterator[Any]:
    async with Client(build_server(identify=lambda request: caller)) as client:
        yield client


@asynccontextmanager
async def over_http(address: str, token: str) -> AsyncIterator[Any]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http_client,
        Client(streamable_http_client(f"{address}/mcp", http_client=http_client)) as client,
    ):
        yield client


def cancelled_after(connect: Any, count: int, tool: str, arguments: dict[str, Any]) -> Reports:
    """Call the tool, cancel the call after `count` reports, and return them."""
    reports: Reports = []

    async def on_progress(position: float, total: float | None, message: str | None) -> None:
        reports.append((position, total, message or ""))

    async def main() -> None:
        async with connect as client, anyio.create_task_group() as group:

            async def work() -> None:
                await client.call_tool(tool, arguments, progress_callback=on_progress)

            group.start_soon(work)
            with anyio.fail_after(60):
                while len(reports) < count:
                    await anyio.sleep(0.01)
            group.cancel_scope.cancel()

    asyncio.run(main())
    return reports


def wait_until_audited(tool: str) -> AuditEvent:
    events = AuditEvent.objects.filter(tool=tool)
    assert until(events.exists), f"{tool} goes on after its client has cancelled it"
    return events.get()


def test_an_ingest_over_http_stops_when_its_client_leaves(http: str, api: Api, alice_user: User) -> None:
    api.delay_s = 0.15
    token = create_token(system_caller(), user=alice_user, name="agent")[1]
    reports = cancelled_after(over_http(http, token), 3, "analysis_ingest", INGEST)
    assert reports[0][1:] == (60, "Ingested page 1/60 (2 records)")
    assert wait_until_audited("analysis_ingest").code == "cancelled"
    row = Ingest.objects.get()
    assert (row.state, 3 <= len(row.pages_done) < 60) == ("partial", True)


# the cancellation may stop the statement that notes the last outcome: a resume then reports this record as unknown
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_action_stops_and_keeps_what_it_has_done(api: Api, alice: Caller) -> None:
    base = {"analysis_id": "audit", "model": "book"}
    as_caller(alice, lambda client: client.call_tool("analysis_ingest", {**base, "ingest_all": True}))
    api.delay_s = 0.05
    change = {**base, "action": "update", "attributes": {"status": "unread"}}
    preview = as_caller(alice, lambda client: client.call_tool("analysis_act", {**change, "dry_run": True}))
    change["confirm"] = preview.structured_content["confirm"]
    AuditEvent.objects.all().delete()
    reports = cancelled_after(in_memory(alice), 2, "analysis_act", change)
    assert reports[0][1] == 120
    assert "records processed" in reports[0][2]
    assert wait_until_audited("analysis_act").code == "cancelled"
    connections.close_all()
    outcomes = set(Action.objects.get().items.values_list("outcome", flat=True))
    assert "succeeded" in outcomes
    assert len(outcomes) > 1  # the rest was not sent


def test_an_apply_stops_between_two_writes_and_can_be_resumed(
    small_catalog: None, alice: Caller, cora: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured = {"category": "data_quality", "insight_text": "This table holds test stores.", "entity_urns": [ORDERS]}
    insight_id = content_of(as_caller(alice, lambda c: c.call_tool("capture_insight", captured)))["insight_id"]
    approve = {"action": "approve", "insight_ids": [insight_id]}
    as_caller(cora, lambda client: client.call_tool("apply_knowledge", approve))
    send = delivery.CatalogWrite.send

    def slow(self: Any, change: Any) -> Any:
        time.sleep(0.2)
        return send(self, change)

    monkeypatch.setattr(delivery.CatalogWrite, "send", slow)
    changes = [{"change_type": "add_tag", "detail": f"Training{number}"} for number in range(10)]
    call = {"action": "apply", "entity_urn": ORDERS, "insight_ids": [insight_id], "changes": changes, "confirm": True}
    AuditEvent.objects.all().delete()
    reports = cancelled_after(in_memory(cora), 2, "apply_knowledge", call)
    position, total, message = reports[0]
    assert total is not None
    assert (position, message) == (1, f"Wrote 1 of {total:.0f} values to the catalog")
    assert wait_until_audited("apply_knowledge").code == "cancelled"
    changeset = Changeset.objects.get()
    written = changeset.changes.filter(outcome=ChangeOutcome.LANDED).count()
    assert (changeset.state, 2 <= written < total) == ("partial", True)
    assert resume(cora, changeset_id=changeset.pk).changeset.state == "applied"
