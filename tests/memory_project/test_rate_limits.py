"""Rate limits per token and per person and persona, and the retention of audit events."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memories.identity.caller import Caller, Limit
from memory_project import rate_limits, retention
from memory_project.models import AuditEvent, CallWindow
from tests.memory_project.test_mcp_server import as_caller

pytestmark = pytest.mark.django_db(transaction=True)


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


def test_a_call_beyond_the_limit_is_rejected_with_the_time_to_wait(
    alice: Caller, bob: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limits, "MINUTE", 366 * rate_limits.DAY)  # so that no minute ends during the test
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


def test_old_call_windows_are_deleted(alice: Caller) -> None:
    CallWindow.objects.create(key="token 1 calls", starts_at=timezone.now() - timedelta(days=3), count=1)
    assert retention.delete_expired_rows() == {"call_windows": 1}


def test_audit_events_are_deleted_after_the_configured_days(settings: Any) -> None:
    for age in (400, 300):
        AuditEvent.objects.create(
            at=timezone.now() - timedelta(days=age), channel="mcp", tool="x", outcome="ok", duration_ms=1
        )
    settings.AUDIT_RETENTION_DAYS = 0
    assert retention.delete_expired_rows() == {}
    settings.AUDIT_RETENTION_DAYS = 365
    assert retention.delete_expired_rows() == {"memory_project_auditevent": 1}
    assert AuditEvent.objects.count() == 1
