"""How much a token, or a person under a persona, may call; how long the audit keeps it."""

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
    async def act(client: Any) -> Any:
        return [
            await client.call_tool("memory_recall" if "query" in operation else "memory_manage", operation)
            for operation in arguments
        ]

    return list(as_caller(caller, act))


def test_nothing_is_limited_or_counted_unless_a_number_is_set(alice: Caller) -> None:
    assert not any(answer.is_error for answer in calls(alice, *[{"query": "x"}] * 5))
    assert not CallWindow.objects.exists()


def test_one_call_too_many_is_told_how_long_to_wait(
    alice: Caller, bob: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limits, "MINUTE", 366 * rate_limits.DAY)  # a minute may end in the middle of the test
    limited = replace(alice, limits=(Limit("token 1", 2, None),))
    *good, refused = calls(limited, *[{"query": "x"}] * 3)
    assert not any(answer.is_error for answer in good)
    assert refused.is_error
    assert "the limit is 2 calls a minute: wait " in refused.content[0].text
    assert '"limit"' in refused.content[0].text
    assert not calls(replace(bob, limits=(Limit("token 2", 2, None),)), {"query": "x"})[0].is_error


def test_writes_are_counted_by_the_day_and_reads_are_not(alice: Caller) -> None:
    limited = replace(alice, limits=(Limit("persona sales 1", None, 1),))
    fact = {"command": "remember", "content": "Revenue excludes refunds."}
    first, second, read = calls(limited, fact, {**fact, "content": "Refunds are booked later."}, {"query": "refunds"})
    assert (first.is_error, second.is_error, read.is_error) == (False, True, False)


def test_counted_windows_go_after_two_days(alice: Caller) -> None:
    CallWindow.objects.create(key="token 1 calls", starts_at=timezone.now() - timedelta(days=3), count=1)
    assert retention.delete_expired_rows() == {"call_windows": 1}


def test_the_audit_forgets_after_its_days(settings: Any) -> None:
    for age in (400, 300):
        AuditEvent.objects.create(
            at=timezone.now() - timedelta(days=age), channel="mcp", tool="x", outcome="ok", duration_ms=1
        )
    settings.AUDIT_RETENTION_DAYS = 0
    assert retention.delete_expired_rows() == {}
    settings.AUDIT_RETENTION_DAYS = 365
    assert retention.delete_expired_rows() == {"memory_project_auditevent": 1}
    assert AuditEvent.objects.count() == 1
