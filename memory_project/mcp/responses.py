"""Results of tool calls: shortened responses, attached context, progress and errors."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from anyio import from_thread
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, ContentBlock, TextContent

from foundation.operations.display import show_invisible
from foundation.operations.errors import DomainError, Invalid
from foundation.people.caller import Caller
from foundation.tools.answers import deliver
from foundation.tools.declaration import Call, ContextBlock, ContextLookup, ToolResponse
from memories import extensions
from memories.extensions import MemoryExtension
from memory_project.models import AuditEvent
from memory_project.operating.env import FALSE, TRUE
from memory_project.operating.observability import request_context

log = logging.getLogger(__name__)

CONTEXT_KEY = "commonplace/memory_context"  # key in a call's `_meta`; the value false turns attached context off
LAG_KEY = "commonplace/replica_lag_s"  # key in a result's `_meta`


@dataclass(frozen=True)
class AttachedContent:
    texts: Sequence[str] = ()
    record_ids: Sequence[UUID] = ()
    took_ms: float = 0.0


class CallContext:
    """The context that extensions attach to the response to one call.

    Their exceptions are logged and never reach the client.
    """

    def __init__(self, caller: Caller, call: Call) -> None:
        self.caller = caller
        self.call = call
        self.took_s = 0.0
        self._lookups: list[tuple[MemoryExtension, ContextLookup]] = []
        for extension in extensions.EXTENSIONS.all():
            with self._timed(extension):
                if lookup := extension.lookup_for(caller, call):
                    self._lookups.append((extension, lookup))

    def begin(self, *, platform: str = "", dialect: str = "") -> None:
        """Look up what the arguments ask for, beside the call."""
        for extension, lookup in self._lookups:
            with self._timed(extension):
                lookup.begin(platform=platform, dialect=dialect)

    def finish(self, call: Call) -> AttachedContent:
        """Return the context for the call, which has its answer now."""
        blocks: list[ContextBlock] = []
        for extension in extensions.EXTENSIONS.all():
            with self._timed(extension):
                blocks.extend(extension.after_call(self.caller, call))
        for extension, lookup in self._lookups:
            with self._timed(extension):
                if block := lookup.finish(call):
                    blocks.append(block)
        texts = [json.dumps(block.data, ensure_ascii=False) for block in blocks]
        record_ids = [pk for block in blocks for pk in block.record_ids]
        return AttachedContent(texts, record_ids, self.took_s * 1000)

    @contextmanager
    def _timed(self, extension: MemoryExtension) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        except Exception:
            name = type(extension).__name__
            log.exception("%s could not attach context to the response of %s", name, self.call.tool)
        finally:
            self.took_s += time.perf_counter() - started


def report_failure(caller: Caller, call: Call, error: DomainError) -> None:
    """Notify extensions of a failed call. Their own exceptions are logged and never reach the client."""
    for extension in extensions.EXTENSIONS.all():
        try:
            extension.call_failed(caller, call, error)
        except Exception:
            log.exception("%s could not handle the failure of %s", type(extension).__name__, call.tool)


def asks_for_context(context: Context[Any, Any] | None) -> bool:
    """Return whether to attach context: yes, unless the `_meta` of the call turns it off.

    Raises Invalid if the value in `_meta` is not a boolean.
    """
    meta = context.request_context.meta if context else None
    values = meta if isinstance(meta, Mapping) else getattr(meta, "model_extra", None) or {}
    given = values.get(CONTEXT_KEY)
    value = "true" if given is None else str(given).strip().lower()  # null counts as absent
    if value not in TRUE | FALSE:
        raise Invalid(f"{value[:40]!r} is not a boolean", field=f"_meta.{CONTEXT_KEY}", allowed="true, false")
    return value in TRUE


def as_result(
    answer: ToolResponse[Any],
    *,
    structured: bool,
    attached: AttachedContent = AttachedContent(),
    quotes: bool = False,
) -> CallToolResult:
    """Build the result of a call. Unless `answer.whole`, the response is shortened to ANSWER_BUDGET_BYTES.

    The result contains the response as text and, if `structured`, as data. Attached context is in separate text blocks,
    so that the data conform to the tool's output schema. Without `structured`, the result is an error. With `quotes`,
    the response is marked as one that quotes, unless it says so itself in `about`.
    """
    delivery = deliver(answer, quotes=quotes and structured)
    attached_texts = [show_invisible(part) for part in attached.texts]
    parts = (delivery.text, *attached_texts, *delivery.marks)
    content: list[ContentBlock] = [TextContent(type="text", text=part) for part in parts]
    if not structured:
        return CallToolResult(content=content, is_error=True)
    meta: Any = {"context": dict(answer.context)} if answer.context else None
    return CallToolResult(content=content, structured_content=delivery.data, is_error=answer.is_error, meta=meta)


def error_answer(error: DomainError) -> dict[str, str]:
    """Return the data of an error, with the id by which an operator finds the request, if it has one."""
    found_by = request_context.reference()
    return {"error": error.message, "code": error.code, **({"trace_id": found_by} if found_by else {})}


def with_lag(result: CallToolResult, lag_s: float | None) -> CallToolResult:
    """Tell the client how many seconds the replica is behind, if the call has read the primary because of that."""
    if lag_s is not None:
        result.meta = {**(result.meta or {}), LAG_KEY: round(lag_s, 1)}
    return result


def report_progress(context: Context[Any, Any], completed: float, total: float | None, message: str) -> None:
    """Send progress to the client, from the worker thread. Raises if the client has cancelled, which ends the work."""
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
    return AuditEvent.Outcome.REFUSED if error.code in ("forbidden", "declined") else AuditEvent.Outcome.ERROR
