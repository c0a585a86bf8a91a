"""Run about 200 tool and REST calls, and record every response with ids and times masked."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
from django.test import Client
from mcp.types import CallToolResult, TextContent

from foundation.people.caller import Caller
from memory_project.mcp.server import build_server

RECORDING = Path(__file__).parent / "recorded_calls.json"
ID = re.compile(r"\b[0-9a-f]{32}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
# as it is, or in a URL
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d(?::|%3A)\d\d(?::|%3A)\d\d\.\d+(?:(?:[+-]|%2B)\d\d(?::|%3A)\d\d|Z)?")
SEEN = re.compile(r"(?<=\")[a-z]+\.\d+\.[0-9a-f]{10}\.[0-9a-f]{10}\.[0-9a-f]+(?=\")")  # an insight's state
# the day of a memory or of the beginning of the news, inside a text response
DAY = re.compile(r"(?<=[;,n] )\d{4}-\d\d-\d\d(?=[; ])|(?<=since )\d{4}-\d\d-\d\d(?=:)")
SIGNED = re.compile(r"(?<=export=)[\w:.~%-]+|[\w-]{16,}:[\w-]{4,}:[\w-]{20,}")


class Session:
    """Runs calls and records their responses."""

    def __init__(self, callers: Mapping[str, Caller], clients: Mapping[str, Client]) -> None:
        self.servers = {person: build_server(toolsets=["all"], identify=lambda _, c=caller: c)  # type: ignore[misc]
                        for person, caller in callers.items()}  # fmt: skip
        self.clients = clients
        self.responses: list[dict[str, Any]] = []
        self._ids: dict[str, str] = {}

    def tool(self, person: str, tool: str, **arguments: Any) -> dict[str, Any]:
        result = asyncio.run(self.servers[person].call_tool(tool, arguments))
        assert isinstance(result, CallToolResult)
        block, *beside = result.content
        assert isinstance(block, TextContent)
        text = block.text
        data = result.structured_content
        if data is not None:
            jsonschema.validate(data, self.servers[person].offered[tool].output_schema)
        is_json = data is not None and text == json.dumps(data, ensure_ascii=False)
        self._record(f"{person} {tool}", arguments, {
            "is_error": bool(result.is_error), "data": data, "text": "the data as JSON" if is_json else _parsed(text),
            **({"beside": [_parsed(part.text) for part in beside if isinstance(part, TextContent)]} if beside else {}),
        })  # fmt: skip
        return dict(data or {})

    def rest(self, person: str, method: str, path: str, body: Any = None) -> Any:
        send = getattr(self.clients[person], method)
        response = send(path) if body is None else send(path, body, content_type="application/json")
        content = response.json() if response.content else None
        self._record(f"{person} {method} {path}", body, {"status": response.status_code, "body": content})
        return content

    def _record(self, call: str, arguments: Any, response: dict[str, Any]) -> None:
        response = {name: _sorted_by_score(value) for name, value in response.items()}
        line = json.dumps({"call": call, "arguments": arguments, **response}, ensure_ascii=False, default=str)
        line = SEEN.sub("<seen>", line)
        line = DAY.sub("<day>", TIME.sub("<time>", SIGNED.sub("<signed>", line)))
        self.responses.append(json.loads(ID.sub(self._mask, line)))

    def _mask(self, match: re.Match[str]) -> str:
        key = match[0].replace("-", "")
        return self._ids.setdefault(key, f"<id {len(self._ids) + 1}>")


def _sorted_by_score(value: Any) -> Any:
    """Sort items of equal score by content. Their original order depends on ids, which differ in every run."""
    if isinstance(value, dict):
        return {name: _sorted_by_score(inner) for name, inner in value.items()}
    if isinstance(value, list) and all(isinstance(item, dict) and _score(item) is not None for item in value):
        return sorted(value, key=lambda item: (-_score(item), str(item.get("content") or item.get("finding"))))
    return value


def _score(item: dict[str, Any]) -> Any:
    return item.get("score", item.get("similarity"))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
