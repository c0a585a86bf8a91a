"""Removes texts from spans before they are sent: names, attributes and messages that could quote a memory or a query.

Libraries put error messages, URLs and names that clients have made up into spans. So only attributes in ALLOWED are
sent, and no events and no messages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Status

from memory_project.operating.observability import calls

METHODS = frozenset(
    {
        "initialize", "ping", "server/discover", "tools/list", "tools/call", "prompts/list", "prompts/get",
        "resources/list", "resources/read", "resources/templates/list", "resources/subscribe", "resources/unsubscribe",
        "completion/complete", "logging/setLevel", "subscriptions/listen", "elicitation/create", "roots/list",
        "sampling/createMessage", "notifications/initialized", "notifications/cancelled", "notifications/progress",
        "notifications/message", "notifications/roots/list_changed", "notifications/tools/list_changed",
        "notifications/resources/updated", "notifications/resources/list_changed", "notifications/prompts/list_changed",
    }
)  # fmt: skip
WORD = re.compile(r"[\w.-]{1,60}")
ALLOWED = frozenset(
    {
        "http.request.method", "http.route", "http.response.status_code", "url.scheme", "server.address", "server.port",
        "network.protocol.version", "db.system.name", "db.operation.name", "db.collection.name", "commonplace.task",
        "gen_ai.operation.name",
    }
)  # fmt: skip
WORDS = frozenset({"error.type", "rpc.response.status_code", "mcp.protocol.version"})  # allowed if they are a word


class WithoutTexts(SpanExporter):
    def __init__(self, exporter: SpanExporter) -> None:
        self.exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self.exporter.export([without_texts(span) for span in spans])

    def shutdown(self) -> None:
        self.exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self.exporter.force_flush(timeout_millis)


def without_texts(span: ReadableSpan) -> ReadableSpan:
    attributes = dict(span.attributes or {})
    return ReadableSpan(
        name=_name(span.name, attributes),
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=_cleaned(attributes),
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _name(name: str, attributes: dict[str, Any]) -> str:
    """Return the name of a span. That of an MCP message ends in a name that the client has sent."""
    if "mcp.method.name" not in attributes:
        return name
    sent = "MCP send " if name.startswith("MCP send ") else ""
    parts = [known_method(str(attributes["mcp.method.name"]))]
    target = name.removeprefix(sent).partition(" ")[2]
    return sent + " ".join(parts + ([calls.label_of(target)] if target and parts == ["tools/call"] else []))


def known_method(method: str) -> str:
    return method if method in METHODS else calls.OTHER


def _cleaned(attributes: dict[str, Any]) -> dict[str, Any]:
    cleaned = {name: value for name, value in attributes.items() if name in ALLOWED}
    for name in WORDS & attributes.keys():
        if WORD.fullmatch(str(attributes[name])):
            cleaned[name] = attributes[name]
    if "mcp.method.name" in attributes:
        cleaned["mcp.method.name"] = known_method(str(attributes["mcp.method.name"]))
    if "gen_ai.tool.name" in attributes:
        cleaned["gen_ai.tool.name"] = calls.label_of(str(attributes["gen_ai.tool.name"]))
    return cleaned
