"""The request for feedback that follows an agent's first recall of a day.

A connection is asked once a day, so that the sentence takes up little of the model's context. A connection without the
tool memory_feedback, such as a read-only one, is not asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings

from foundation.people.caller import Caller
from foundation.tools.declaration import Call, ContextBlock
from memory_project.web import rate_limits

REQUEST = "After your answer, report with memory_feedback which memories it used, and which were wrong or outdated."


def after_recall(caller: Caller, call: Call) -> Sequence[ContextBlock]:
    if call.tool != "memory_recall" or not call.data.get("memories") or not caller.connection:
        return []
    if not settings.FEEDBACK_REQUEST or not caller.wants_context or not caller.may_use("memory_feedback"):
        return []
    is_first = rate_limits.is_first_of_day(f"feedback {caller.connection}")
    return [ContextBlock({"feedback": REQUEST})] if is_first else []
