"""The audit log: caller, tool, outcome and arguments of each call.

Secrets are masked, and long texts are replaced by their length.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from foundation.database import prepared_statements
from foundation.operations.masking import masked
from foundation.people.caller import Caller
from memory_project.models import AuditEvent
from memory_project.operating.observability import request_context

MAX_TEXT = 200  # characters; a longer text is replaced by its length
# Names of arguments that contain texts written by people or agents. Only the length of such a text is stored. Otherwise
# the audit event of a failed call could keep a copy of an erased memory, or of what a person asked their agent.
CONTENT_KEYS = frozenset(
    {
        "content", "insight_text", "summary", "reason", "note", "review_notes", "detail", "text", "value", "response",
        "prompt", "statement", "evidence",
    }
)  # fmt: skip
SECRET = re.compile(r"pass(word|wd)?|secret|token|api_?key|authorization|credential", re.IGNORECASE)
ID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ID_KEYS = ("id", "ids", "insight_id", "insight_ids", "record_id")  # keys of a response that name memories
RECALL = "memory_recall"
MAX_IDS = 5_000  # maximum number of ids that an event keeps
MAX_DEPTH = 6  # maximum nesting of stored arguments; deeper values are replaced by "…"


def redacted(value: Any, depth: int = 0) -> Any:
    """Return the value with secrets masked and long texts replaced by their length.

    Values nested deeper than MAX_DEPTH and all but the first 50 items of a list or object are left out.
    """
    if depth > MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return {
            masked(_clean(str(key)))[:100]: _redacted_item(str(key), item, depth)
            for key, item in list(value.items())[:50]
        }
    if isinstance(value, list | tuple):
        return [redacted(item, depth + 1) for item in value[:50]]
    if isinstance(value, str):
        clean = masked(_clean(value))
        return clean if len(clean) <= MAX_TEXT else f"[{len(value)} characters]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, int | float | bool | None) else str(value)[:MAX_TEXT]


def _redacted_item(key: str, item: Any, depth: int) -> Any:
    if SECRET.search(key):
        return "[secret]"
    if key in CONTENT_KEYS and isinstance(item, str):
        return f"[{len(item)} characters]"
    if key == "url" and isinstance(item, str):
        return _clean(_without_path(item))
    return redacted(item, depth + 1)


def _without_path(url: str) -> str:
    """Return scheme and host alone: the path of a webhook's URL is often a secret."""
    scheme, separator, rest = url.partition("://")
    host = rest.split("/")[0].split("?")[0].split("#")[0].rpartition("@")[2]
    return f"{scheme[:20]}://{host[:MAX_TEXT]}/…" if separator else "[secret]"


def _clean(text: str) -> str:
    """Replace NUL and unpaired surrogates, which jsonb can't store."""
    return text.replace("\x00", "�").encode(errors="replace").decode()


def named_records(arguments: Mapping[str, Any], answer: Any) -> list[UUID]:
    """Return the ids of the memories named in a call, at any depth, or in the top level of its response.

    Erasing a memory uses them to find its events. Memories that a search lists, or that come along with a response, are
    not named: the arguments of such a call can't contain their texts.
    """
    ids = ids_in(arguments)
    if isinstance(answer, Mapping):
        ids |= ids_in([answer.get(key) for key in ID_KEYS])
    return sorted(ids)[:MAX_IDS]


def _hits(tool: str, answer: Any) -> int | None:
    """Return how many memories a recall found, so that questions without answers can be told from the others."""
    count = answer.get("count") if tool == RECALL and isinstance(answer, Mapping) else None
    return count if isinstance(count, int) else None


def ids_in(value: Any, depth: int = 0) -> set[UUID]:
    if isinstance(value, UUID):
        return {value}
    if isinstance(value, str):
        return {UUID(value)} if ID.fullmatch(value) else set()
    if depth > MAX_DEPTH or not isinstance(value, Mapping | list | tuple):
        return set()
    items = value.values() if isinstance(value, Mapping) else value
    return {pk for item in items for pk in ids_in(item, depth + 1)}


def record(
    caller: Caller | None,
    *,
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
    context_count: int = 0,
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
        record_ids=named_records(arguments, answer),
        hits=_hits(tool, answer),
        trace_id=request_context.reference()[:64],
        context_ms=round(context_ms, 2),
        context_count=context_count,
    )
    if only_read:
        prepared_statements.insert_quickly(event, public=True)
    else:
        prepared_statements.insert([event], public=True)
