"""Insights from corrected SQL statements.

If a statement fails and a similar one succeeds soon after on the same connection, both are proposed as a pending
insight for a curator to review. This is off by default (CAPTURE_FROM_FAILURE).
"""

from __future__ import annotations

import re

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from foundation.operations.errors import DomainError
from foundation.people.caller import Caller
from foundation.tools.declaration import Call, ContextBlock
from knowledge.entities.call_subject import subject_of
from knowledge.insights.capture import capture
from knowledge.models import FailedCall
from knowledge.models.failed_call import WITHIN
from knowledge.operations import Capture
from memories.models import Category, Source
from memories.texts import sequence_matching

TOOLS = {"query_sql": "sql"}  # tool → the argument that holds the statement
STATEMENT_ERRORS = ("invalid", "upstream")  # codes of errors that the statement itself may have caused
MIN_SIMILARITY = 0.5  # minimum difflib ratio of the words at which one statement is taken for a correction of the other
MAX_STATEMENT = 1_500  # maximum number of characters of a statement in the text of a correction


def on_call_failed(caller: Caller, call: Call, error: DomainError) -> None:
    """Store a failed statement, to be compared with later ones of the same connection."""
    statement = _statement(call)
    if not settings.CAPTURE_FROM_FAILURE or not caller.connection or not statement:
        return
    if error.code in STATEMENT_ERRORS:
        FailedCall.objects.create(
            connection=caller.connection, tool=call.tool, question=statement, error=error.message[:500]
        )


def propose_correction(caller: Caller, call: Call) -> ContextBlock | None:
    """If the call corrects a failed statement, propose the correction once and return a note, otherwise None."""
    statement = _statement(call)
    if not settings.CAPTURE_FROM_FAILURE or not caller.connection or not statement:
        return None
    recent = FailedCall.objects.filter(connection=caller.connection, tool=call.tool, at__gt=timezone.now() - WITHIN)
    failed = next((row for row in recent[:5] if _is_correction(row.question, statement)), None)
    if failed is None:
        return None
    with transaction.atomic():
        claimed, _ = FailedCall.objects.filter(connection=caller.connection, tool=call.tool).delete()
    if not claimed:
        return None  # another call has just proposed the correction
    captured = capture(
        caller,
        Capture.read(
            {
                "insight_text": _text(failed, statement),
                "category": Category.CORRECTION,
                "confidence": "low",
                "source": Source.AGENT_DISCOVERY,
                "entity_urns": subject_of(caller, call).requested,
            }
        ),
    )
    note = "the correction of the statement that failed before was proposed as an insight: a curator decides"
    return ContextBlock({"captured_insight": captured.insight.pk.hex, "note": note})


def _statement(call: Call) -> str:
    value = call.arguments.get(TOOLS.get(call.tool, ""))
    return value.strip() if isinstance(value, str) else ""


def _is_correction(failed: str, statement: str) -> bool:
    """Return whether one statement may correct the other. Only the beginnings that the insight quotes are compared."""
    words, other_words = (re.findall(r"\w+|[^\w\s]", text[:MAX_STATEMENT]) for text in (failed, statement))
    matcher = sequence_matching.matcher(words, other_words)
    return failed != statement and matcher is not None and matcher.ratio() >= MIN_SIMILARITY


def _text(failed: FailedCall, statement: str) -> str:
    return (
        f"A failed statement was corrected.\n\nFailed ({failed.error}):\n\n"
        f"    {failed.question[:MAX_STATEMENT]}\n\nWorked:\n\n    {statement[:MAX_STATEMENT]}"
    )
