"""What is written down of a call: who, what, how it went, and its arguments without secrets and long texts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from memories.database import prepared_statements
from memories.identity.caller import Caller
from memory_project.models import AuditEvent

MAX_TEXT = 200  # longer texts are noted by their length
# What people or agents said is never kept here: erasing a memory must leave nothing, also of a call that failed.
SAID = frozenset(
    {"content", "insight_text", "summary", "reason", "note", "review_notes", "detail", "text", "value", "response"}
)
SECRET = re.compile(r"pass(word|wd)?|secret|token|api_?key|authorization|credential", re.IGNORECASE)
ID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ID_KEYS = ("id", "ids", "insight_id", "insight_ids", "record_id")
MAX_DEPTH = 6


def redacted(value: Any, depth: int = 0) -> Any:
    """The value with secrets masked and long texts replaced by their length."""
    if depth > MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return {_clean(str(key))[:100]: _redacted_item(str(key), item, depth) for key, item in list(value.items())[:50]}
    if isinstance(value, list | tuple):
        return [redacted(item, depth + 1) for item in value[:50]]
    if isinstance(value, str):
        clean = _clean(value)
        return clean if len(clean) <= MAX_TEXT else f"[{len(value)} characters]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, int | float | bool | None) else str(value)[:MAX_TEXT]


def _redacted_item(key: str, item: Any, depth: int) -> Any:
    if SECRET.search(key):
        return "[secret]"
    if key in SAID and isinstance(item, str):
        return f"[{len(item)} characters]"
    return redacted(item, depth + 1)


def _clean(text: str) -> str:
    """Without what jsonb can't hold."""
    return text.replace("\x00", "�").encode(errors="replace").decode()


def named_records(*values: Any) -> list[UUID]:
    """Ids of memories that a call or its answer names, so that erasing one finds what was written about it."""
    ids: set[UUID] = set()
    for value in values:
        if isinstance(value, Mapping):
            for key in ID_KEYS:
                entry = value.get(key)
                texts = entry if isinstance(entry, list) else [entry]
                ids.update(UUID(text) for text in texts if isinstance(text, str) and ID.fullmatch(text))
    return sorted(ids)


def record(
    *,
    caller: Caller | None,
    tool: str,
    outcome: str,
    duration_ms: float,
    arguments: Mapping[str, Any],
    answer: Any,
    request_chars: int,
    response_chars: int,
    code: str = "",
    message: str = "",
    channel: str = "",
    email: str = "",
    context_ms: float = 0.0,
    shown_ids: Sequence[UUID] = (),
    only_read: bool = False,
) -> None:
    """`door` and `email` are for calls that have no caller: nobody signed in, or not yet. Of a call that `only_read`
    the entry is committed without waiting for the disk."""
    event = AuditEvent(
        email=caller.email if caller else email[:254],
        persona=caller.persona if caller else "",
        channel=channel or (caller.channel if caller else "mcp"),
        tool=tool[:100],
        outcome=outcome,
        code=code,
        message=redacted(message),
        duration_ms=round(duration_ms, 2),
        request_chars=request_chars,
        response_chars=response_chars,
        arguments=redacted(arguments),
        record_ids=sorted({*named_records(arguments, answer), *shown_ids}),
        context_ms=round(context_ms, 2),
        context_count=len(shown_ids),
    )
    if only_read:
        prepared_statements.insert_quickly(event)
    else:
        prepared_statements.insert([event])
