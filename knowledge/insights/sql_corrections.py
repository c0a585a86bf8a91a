"""A statement that failed and was put right a moment later teaches something: where an operator has switched it on, the
correction is proposed as a pending insight with both statements, for a curator to judge."""

from __future__ import annotations

import difflib
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from knowledge.context.memory_context import entities_of
from knowledge.insights.capture import capture
from knowledge.models import FailedCall
from knowledge.operations import Capture
from memories.contract.errors import DomainError
from memories.contract.tools import Call, ContextBlock
from memories.identity.caller import Caller
from memories.models import Category, Source

WITHIN = timedelta(minutes=15)
TOOLS = {"query_sql": "sql"}  # tool → the argument that is put right
TEACHES = ("invalid", "upstream")  # codes of faults that lie in the statement
ALIKE = 0.5  # ratio of two statements (difflib) from which one is the other put right
MAX_STATEMENT = 1_500  # characters of a statement in the text of a correction


def on_call_failed(caller: Caller, call: Call, error: DomainError) -> None:
    """memories.contract.tools.FAILURES: keeps what failed, for minutes."""
    statement = _statement(call)
    if not settings.CAPTURE_FROM_FAILURE or not caller.connection or not statement or error.code not in TEACHES:
        return
    FailedCall.objects.create(
        connection=caller.connection, tool=call.tool, question=statement, error=error.message[:500]
    )


def propose_correction(caller: Caller, call: Call) -> ContextBlock | None:
    """memories.contract.tools.COMPANIONS: proposes the correction, once, and says so beside the answer."""
    statement = _statement(call)
    if not settings.CAPTURE_FROM_FAILURE or not caller.connection or not statement:
        return None
    recent = FailedCall.objects.filter(connection=caller.connection, tool=call.tool, at__gt=timezone.now() - WITHIN)
    failed = next((row for row in recent[:5] if _is_the_same(row.question, statement)), None)
    if failed is None:
        return None
    with transaction.atomic():
        claimed, _ = FailedCall.objects.filter(connection=caller.connection, tool=call.tool).delete()
    if not claimed:
        return None  # another call was quicker
    captured = capture(
        Capture.read(
            {
                "insight_text": _text(failed, statement),
                "category": Category.CORRECTION,
                "confidence": "low",
                "source": Source.AGENT_DISCOVERY,
                "entity_urns": entities_of(caller, call),
            }
        ),
        caller=caller,
    )
    says = "a correction was proposed from the statement that failed before: a curator decides"
    return ContextBlock({"captured_insight": captured.insight.pk.hex, "note": says})


def _statement(call: Call) -> str:
    value = call.arguments.get(TOOLS.get(call.tool, ""))
    return value.strip() if isinstance(value, str) else ""


def _is_the_same(failed: str, statement: str) -> bool:
    return failed != statement and difflib.SequenceMatcher(None, failed, statement).ratio() >= ALIKE


def _text(failed: FailedCall, statement: str) -> str:
    return (
        f"A statement that failed was put right.\n\nFailed ({failed.error}):\n\n"
        f"    {failed.question[:MAX_STATEMENT]}\n\nWorked:\n\n    {statement[:MAX_STATEMENT]}"
    )
