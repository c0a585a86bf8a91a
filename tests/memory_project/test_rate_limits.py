"""Rate limits per token and per person and persona, and the retention of audit events."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from mcp.shared.exceptions import MCPError

from foundation.database import retention
from foundation.people.caller import Caller, Limit, system_caller
from memories.models import MemoryRecord
from memory_project.accounts.tokens import create_token
from memory_project.models import AuditEvent, CallWindow, User
from memory_project.web import rate_limits
from tests.mcp_client import as_caller, over_http

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def long_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no minute and no day end during a test."""
    monkeypatch.setattr(rate_limits, "MINUTE", 366 * 86_400)
    monkeypatch.setattr(rate_limits, "DAY", 366 * 86_400)


def calls(caller: Caller, *arguments: dict[str, Any]) -> list[Any]:
    async def action(client: Any) -> Any:
        return [
            await client.call_tool("memory_recall" if "query" in values else "memory_manage", values)
            for values in arguments
        ]

    return list(as_caller(caller, action))


def test_calls_are_neither_limited_nor_counted_without_a_limit(alice: Caller) -> None:
    assert not any(response.is_error for response in calls(alice, *[{"query": "x"}] * 5))
    assert not CallWindow.objects.exists()


def test_a_call_beyond_the_limit_is_rejected_with_the_time_to_wait(alice: Caller, bob: Caller) -> None:
    limited = replace(alice, limits=(Limit("token 1", 2, None),))
    *good, refused = calls(limited, *[{"query": "x"}] * 3)
    assert not any(response.is_error for response in good)
    assert refused.is_error
    assert "the limit is 2 calls a minute: wait " in refused.content[0].text
    assert '"limit"' in refused.content[0].text
    assert not calls(replace(bob, limits=(Limit("token 2", 2, None),)), {"query": "x"})[0].is_error


def test_a_daily_limit_counts_only_writes(alice: Caller) -> None:
    limited = replace(alice, limits=(Limit("persona sales 1", None, 1),))
    fact = {"command": "remember", "content": "Revenue excludes refunds."}
    first, second, read = calls(limited, fact, {**fact, "content": "Refunds are booked later."}, {"query": "refunds"})
    assert (first.is_error, second.is_error, read.is_error) == (False, True, False)


def test_limits_of_a_token_count_rest_and_mcp_together(http: str, alice_user: User) -> None:
    text = create_token(system_caller(), user=alice_user, name="test", calls_per_minute=4)[1]
    headers = {"authorization": f"Bearer {text}"}
    client = Client(headers=headers)
    assert client.get("/api/v1/memories/").status_code == 200
    assert client.get("/api/v1/schema/").status_code == 200
    assert client.get(f"/api/v1/memories/{'0' * 32}/").status_code == 404
    recall = over_http(http, text, lambda mcp: mcp.call_tool("memory_recall", {"query": "x"}))
    assert not recall.is_error
    refused = client.post("/api/v1/memories/recall/", {"query": "x"}, content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (429, "limit")
    assert int(refused["Retry-After"]) > 0
    assert "the limit is 4 calls a minute: wait " in refused.json()["detail"]
    assert over_http(http, text, lambda mcp: mcp.call_tool("memory_recall", {"query": "x"})).is_error
    other = create_token(system_caller(), user=alice_user, name="test")[1]
    assert Client(headers={"authorization": f"Bearer {other}"}).get("/api/v1/memories/").status_code == 200


def test_daily_limits_count_writing_rest_requests(alice_user: User) -> None:
    text = create_token(system_caller(), user=alice_user, name="test", writes_per_day=1)[1]
    client = Client(headers={"authorization": f"Bearer {text}"})

    def post(path: str, body: dict[str, Any]) -> int:
        return client.post(f"/api/v1/memories/{path}", body, content_type="application/json").status_code

    assert post("recall/", {"query": "refunds"}) == 200
    assert post("", {"content": "Revenue excludes refunds."}) == 201
    assert post("", {"content": "Refunds are booked later."}) == 429
    assert post(f"{MemoryRecord.objects.get().pk}/supersede/", {"content": "Revenue includes refunds."}) == 429
    assert post("recall/", {"query": "refunds"}) == 200
    assert MemoryRecord.objects.count() == 1


def test_limits_count_resources_and_prompts(alice: Caller, fact: MemoryRecord) -> None:
    limited = replace(alice, limits=(Limit("token 1", 2, None),))

    async def action(client: Any) -> None:
        await client.read_resource(f"commonplace://memory/{fact.pk.hex}")
        await client.get_prompt("start_of_session")
        with pytest.raises(MCPError, match="the limit is 2 calls a minute"):
            await client.read_resource(f"commonplace://memory/{fact.pk.hex}")

    as_caller(limited, action)


def test_old_call_windows_are_deleted(alice: Caller) -> None:
    CallWindow.objects.create(key="token 1 calls", starts_at=timezone.now() - timedelta(days=3), count=1)
    assert retention.delete_expired() == {"call_windows": 1}


def test_audit_events_are_deleted_after_the_configured_days(settings: Any) -> None:
    for age in (400, 300):
        AuditEvent.objects.create(
            at=timezone.now() - timedelta(days=age), channel="mcp", tool="x", outcome="ok", duration_ms=1
        )
    settings.AUDIT_RETENTION_DAYS = 0
    assert retention.delete_expired() == {}
    settings.AUDIT_RETENTION_DAYS = 365
    assert retention.delete_expired() == {"memory_project_auditevent": 1}
    assert AuditEvent.objects.count() == 1
