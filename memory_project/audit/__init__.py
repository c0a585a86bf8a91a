"""The audit log: caller, tool, outcome and arguments of each call.

Secrets are masked, and long texts are replaced by their length.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from memories.database import prepared_statements
from memories.identity.caller import Caller
from memory_project.models import AuditEvent

MAX_TEXT = 200  # characters; a longer text is replaced by its length
# Names of arguments that contain texts written by people or agents. Only the length of such a text is stored. Otherwise
# the audit event of a failed call could keep a copy of an erased memory.
CONTENT_KEYS = frozenset(
    {"content", "insight_text", "summary", "reason", "note", "review_notes", "detail", "text", "value", "response"}
)
SECRET = re.compile(r"pass(word|wd)?|secret|token|api_?key|authorization|credential", re.IGNORECASE)
ID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ID_KEYS = ("id", "ids", "insight_id", "insight_ids", "record_id")
MAX_DEPTH = 6  # maximum nesting of stored arguments; deeper values are replaced by "…"


def redacted(value: Any, depth: int = 0) -> Any:
    """Return the value with secrets masked and long texts replaced by their length.

    Values nested deeper than MAX_DEPTH and all but the first 50 items of a list or object are left out.
    """
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
    if key in CONTENT_KEYS and isinstance(item, str):
        return f"[{len(item)} characters]"
    return redacted(item, depth + 1)


def _clean(text: str) -> str:
    """Replace NUL and unpaired surrogates, which jsonb can't store."""
    return text.replace("\x00", "�").encode(errors="replace").decode()


def named_records(*values: Any) -> list[UUID]:
    """Return the ids of the memories named in a call or its response. Erasing a memory uses them to find its events."""
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
    """Store an audit event.

    `channel` takes precedence over the caller's channel. `email` is used if there is no caller, such as at sign-in.
    With `only_read`, the event is committed asynchronously: the call does not wait for the disk, but a crash of the
    database may lose the event.
    """
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
