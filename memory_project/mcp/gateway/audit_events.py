"""Audit events of what operators do to upstreams and their tools, whichever way they do it."""

from __future__ import annotations

from typing import Any

from foundation.people.caller import Caller
from memory_project import audit
from memory_project.models import AuditEvent


def record(caller: Caller, action: str, **arguments: Any) -> None:
    """Record that the caller has done something, such as `accept`, inside the transaction of the change."""
    audit.record(
        caller,
        tool=f"upstream.{action}",
        outcome=AuditEvent.Outcome.OK,
        duration_ms=0,
        arguments=arguments,
        answer=None,
        request_chars=0,
        response_chars=0,
    )
