"""A played session: some 200 calls of tools and REST in a small world, every answer with ids and times masked."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
from django.test import Client
from mcp.types import TextContent

from memories.identity.caller import Caller
from memory_project.mcp.server import build_server

RECORDING = Path(__file__).parent / "recorded_calls.json"
ID = re.compile(r"\b[0-9a-f]{32}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(?:[+-]\d\d:\d\d|Z)?")
DAY = re.compile(r"(?<=; )\d{4}-\d\d-\d\d(?=; )")  # of a memory, in a text to read
SIGNED = re.compile(r"(?<=export=)[\w:.~-]+|[\w-]{16,}:[\w-]{4,}:[\w-]{20,}")


class Session:
    """Plays calls and keeps what came back."""

    def __init__(self, callers: Mapping[str, Caller], clients: Mapping[str, Client]) -> None:
        self.servers = {person: build_server(toolsets=["all"], identify=lambda _, c=caller: c)  # type: ignore[misc]
                        for person, caller in callers.items()}  # fmt: skip
        self.clients = clients
        self.answers: list[dict[str, Any]] = []
        self._ids: dict[str, str] = {}

    def tool(self, person: str, tool: str, **arguments: Any) -> dict[str, Any]:
        result = asyncio.run(self.servers[person].call_tool(tool, arguments))
        block, *beside = result.content
        assert isinstance(block, TextContent)
        text = block.text
        data = result.structured_content
        if data is not None:
            jsonschema.validate(data, self.servers[person].offered[tool].output_schema)
        is_json = data is not None and text == json.dumps(data, ensure_ascii=False)
        self._keep(f"{person} {tool}", arguments, {
            "is_error": bool(result.is_error), "data": data, "text": "the data as JSON" if is_json else _parsed(text),
            **({"beside": [_parsed(part.text) for part in beside if isinstance(part, TextContent)]} if beside else {}),
        })  # fmt: skip
        return dict(data or {})

    def rest(self, person: str, method: str, path: str, body: Any = None) -> Any:
        send = getattr(self.clients[person], method)
        answer = send(path) if body is None else send(path, body, content_type="application/json")
        content = answer.json() if answer.content else None
        self._keep(f"{person} {method} {path}", body, {"status": answer.status_code, "body": content})
        return content

    def _keep(self, call: str, arguments: Any, answer: dict[str, Any]) -> None:
        answer = {name: _settled(value) for name, value in answer.items()}
        line = json.dumps({"call": call, "arguments": arguments, **answer}, ensure_ascii=False, default=str)
        line = DAY.sub("<day>", TIME.sub("<time>", SIGNED.sub("<signed>", line)))
        self.answers.append(json.loads(ID.sub(self._mask, line)))

    def _mask(self, match: re.Match[str]) -> str:
        key = match[0].replace("-", "")
        return self._ids.setdefault(key, f"<id {len(self._ids) + 1}>")


def _settled(value: Any) -> Any:
    """Equal scores are ordered by ids, which are made anew each time."""
    if isinstance(value, dict):
        return {name: _settled(inner) for name, inner in value.items()}
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
