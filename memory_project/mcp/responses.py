"""What leaves the server: an answer within its budget, what goes along with it, and how a failure is called."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from anyio import from_thread
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, ContentBlock, TextContent

from memories import extensions
from memories.contract.budget import fit, fit_text
from memories.contract.errors import DomainError
from memories.contract.tools import Call, ContextBlock, ToolResponse
from memories.identity.caller import Caller
from memory_project.models import AuditEvent

log = logging.getLogger(__name__)

CONTEXT_KEY = "commonplace/memory_context"  # in a call's _meta; false: nothing comes along


@dataclass(frozen=True)
class AttachedContent:
    """What goes along with an answer, and what it cost."""

    texts: Sequence[str] = ()
    record_ids: Sequence[UUID] = ()
    took_ms: float = 0.0


def attached_content(caller: Caller, call: Call) -> AttachedContent:
    """What the companions say of a call; one that fails is logged, and the answer goes without it."""
    started = time.perf_counter()
    entries: list[ContextBlock] = []
    for extension in extensions.registered():
        try:
            entries.extend(extension.after_call(caller, call))
        except Exception:
            log.exception("%s could not add to the response of %s", type(extension).__name__, call.tool)
    texts = [json.dumps(entry.data, ensure_ascii=False) for entry in entries]
    record_ids = [pk for entry in entries for pk in entry.record_ids]
    return AttachedContent(texts, record_ids, (time.perf_counter() - started) * 1000)


def report_failure(caller: Caller, call: Call, error: DomainError) -> None:
    """A listener that fails itself is logged; the call's own fault is what the client hears."""
    for extension in extensions.registered():
        try:
            extension.call_failed(caller, call, error)
        except Exception:
            log.exception("%s could not handle the failure of %s", type(extension).__name__, call.tool)


def asks_for_context(context: Context[Any, Any] | None) -> bool:
    """Unless the call itself says, in its `_meta`, that nothing shall come along."""
    meta = context.request_context.meta if context else None
    given_meta = meta if isinstance(meta, Mapping) else getattr(meta, "model_extra", None) or {}
    return given_meta.get(CONTEXT_KEY) is not False


def as_result(
    answer: ToolResponse[Any], *, structured: bool, beside: AttachedContent = AttachedContent()
) -> CallToolResult:
    """The answer within its budget: as text, and as data unless it is a refusal; what goes along is a text of its own,
    and the data stay within their schema."""
    fitting = dict(answer.data) if answer.whole else fit(dict(answer.data))
    text = answer.text if answer.whole else fit_text(answer.text)
    text = text or json.dumps(fitting, ensure_ascii=False)
    content: list[ContentBlock] = [TextContent(type="text", text=part) for part in (text, *beside.texts)]
    if not structured:
        return CallToolResult(content=content, is_error=True)
    meta: Any = {"context": dict(answer.context)} if answer.context else None
    return CallToolResult(content=content, structured_content=fitting, is_error=answer.is_error, meta=meta)


def tell_client(context: Context[Any, Any], completed: float, total: float | None, message: str) -> None:
    """Progress from the worker thread. When the client has cancelled, ends the work there."""
    from_thread.check_cancelled()
    from_thread.run(context.report_progress, completed, total, message)


class Cancelled(DomainError):
    code = "cancelled"
    status = 499


class InternalError(DomainError):
    code = "internal"
    status = 500


def outcome(error: DomainError | None) -> str:
    if error is None:
        return AuditEvent.Outcome.OK
    return AuditEvent.Outcome.REFUSED if error.code == "forbidden" else AuditEvent.Outcome.ERROR
