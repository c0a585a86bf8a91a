"""The duration of MCP messages, as OpenTelemetry's conventions for MCP name it: mcp.server.operation.duration."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

from mcp.types import CallToolResult

from memory_project.operating.observability import calls, tracing

NAME = "mcp.server.operation.duration"
SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)


async def measured(ctx: Any, call_next: Callable[[Any], Any]) -> Any:
    """Middleware of the SDK: record how long a message took."""
    if not tracing.is_on():
        return await call_next(ctx)
    started = time.perf_counter()
    error_type = ""
    try:
        result = await call_next(ctx)
        if _is_error(result):
            error_type = "tool_error"
        return result
    except BaseException as error:
        error_type = type(error).__name__
        raise
    finally:
        _histogram().record(time.perf_counter() - started, _attributes(ctx, error_type))


def _is_error(result: Any) -> bool:
    return (
        result.is_error is True
        if isinstance(result, CallToolResult)
        else (isinstance(result, dict) and result.get("isError") is True)
    )


def _attributes(ctx: Any, error_type: str) -> dict[str, str]:
    from memory_project.operating.observability.span_texts import known_method  # noqa: PLC0415 - imports the SDK

    attributes = {"mcp.method.name": known_method(ctx.method)}
    name = ctx.params.get("name") if ctx.method == "tools/call" and ctx.params else None
    if isinstance(name, str):
        attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": calls.label_of(name)}
    return attributes | ({"error.type": error_type} if error_type else {})


@cache
def _histogram() -> Any:
    from opentelemetry import metrics  # noqa: PLC0415 - see tracing.start()

    meter = metrics.get_meter("commonplace")
    return meter.create_histogram(
        NAME, unit="s", description="Duration of MCP messages.", explicit_bucket_boundaries_advisory=SECONDS
    )
