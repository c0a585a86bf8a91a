"""Messages of a Claude Code transcript, without what Commonplace itself has put there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_project.agents.hook_program.framing import without_blocks
from memory_project.agents.hook_program.gates import WRAPPED

if TYPE_CHECKING:
    from memory_project.agents.hook_program.candidates import SessionMessage

MAX_BYTES = 4_000_000  # the end of a long session; reading more would take longer than a hook has
MAX_LINES = 10_000


def read_transcript(path: Path) -> list[SessionMessage]:
    """Return the messages of a session, oldest first, [] if there is no such file."""
    messages: list[SessionMessage] = []
    calls: dict[str, tuple[str, Any]] = {}
    for line in _lines(path):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        # a sidechain is the conversation of a subagent; meta entries and summaries are the program's own texts
        if not isinstance(entry, dict) or any(entry.get(key) for key in ("isSidechain", "isMeta", "isCompactSummary")):
            continue
        message = entry.get("message")
        if entry.get("type") in ("user", "assistant") and isinstance(message, dict):
            messages += _messages(entry["type"], message.get("content"), calls)
    return messages


def _lines(path: Path) -> list[bytes]:
    try:
        if not path.is_file():
            return []
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MAX_BYTES))
            lines = file.read(MAX_BYTES).split(b"\n")
    except OSError:
        return []
    # the first line is cut where the file is longer
    return lines[1 if size > MAX_BYTES else 0 :][-MAX_LINES:]


def _messages(role: str, content: Any, calls: dict[str, tuple[str, Any]]) -> Iterator[SessionMessage]:
    from memory_project.agents.hook_program.candidates import SessionMessage  # noqa: PLC0415 - only sessions that are read need it

    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    for block in content if isinstance(content, list) else []:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "text" and (text := without_blocks(str(block.get("text") or "")).strip()):
            if role == "assistant" or not WRAPPED.match(text):
                yield SessionMessage(role, text)
        elif kind == "tool_use":
            calls[str(block.get("id"))] = tool, given = str(block.get("name") or ""), block.get("input")
            yield SessionMessage("assistant", "", tool=tool, tool_input=given)
        elif kind == "tool_result":
            tool, given = calls.get(str(block.get("tool_use_id")), ("", None))
            text = without_blocks(_result_text(block.get("content")))
            yield SessionMessage("tool", text, tool=tool, tool_input=given, is_error=block.get("is_error") is True)


def _result_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))
