"""The data export of ChatGPT.

A conversation is a tree of messages. Its turns are those of the branch that was shown last. Texts that the model sent
to its tool "bio" are what it had remembered about the person, so they become memories.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from memory_project.exchange.imports.formats.chat_exports import (
    CHATGPT,
    ChatMessage,
    conversation_key,
    has_conversations,
    items_of_files,
    service_at_start,
    turn_rows,
)
from memory_project.exchange.imports.formats.memory_rows import AGENT_FIELDS, joined, problem_row, split_rows
from memory_project.exchange.imports.rows import ImportedRow

ROLES = {"user": "human", "assistant": "ai"}
CONTENT_TYPES = ("text", "multimodal_text")
MEMORY_TOOL = "bio"


def read(file: BinaryIO, name: str) -> Iterator[ImportedRow]:
    """Yield the memories and the turns of each conversation."""
    for path, item in items_of_files(file, name, has_conversations, ["item"]):
        if isinstance(item, ImportedRow):
            yield item
            continue
        place = f"{path}, conversation {item.number}" if item.number else path
        if item.problem:
            yield problem_row(place, item.problem)
        else:
            yield from _conversation_rows(place, item.value)


def _conversation_rows(place: str, conversation: Mapping[str, Any]) -> Iterator[ImportedRow]:
    key = conversation_key(CHATGPT, conversation.get("conversation_id") or conversation.get("id"))
    mapping = conversation.get("mapping")
    if not key or not isinstance(mapping, dict):
        yield problem_row(place, "is not a conversation; allowed: an object with id and mapping")
        return
    title = conversation.get("title")
    for text, message in _remembered(mapping).items():
        metadata = {"chatgpt": {"conversation": key, "title": title if isinstance(title, str) else ""}}
        data = {**AGENT_FIELDS, "content": text, "created_at": message.get("create_time"), "metadata": metadata}
        yield from split_rows(f"{place}, memory", data)
    branch = _branch(mapping, conversation.get("current_node"))
    messages = [shown for node in branch if (shown := _message(node))]
    if not messages:
        yield problem_row(place, "has no messages with text")
    yield from turn_rows(place, key, title, messages, conversation.get("create_time"))


def _remembered(mapping: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the texts for the memory tool, with their messages. Repeated answers sent the same text again."""
    found: dict[str, Mapping[str, Any]] = {}
    for node in mapping.values():
        message = _object(_object(node).get("message"))
        if message.get("recipient") == MEMORY_TOOL and (text := _text(message)):
            found.setdefault(text, message)
    return found


def _branch(mapping: Mapping[str, Any], last: Any) -> list[Mapping[str, Any]]:
    """Return the nodes from the first to the last one that was shown."""
    if not isinstance(last, str) or last not in mapping:
        last = _newest_leaf(mapping)
    nodes: list[Mapping[str, Any]] = []
    seen: set[str] = set()
    while isinstance(last, str) and last in mapping and last not in seen:  # parents may form a circle
        seen.add(last)
        nodes.append(_object(mapping[last]))
        last = nodes[-1].get("parent")
    return nodes[::-1]


def _newest_leaf(mapping: Mapping[str, Any]) -> str | None:
    leaves = [key for key, node in mapping.items() if not _object(node).get("children")]
    return leaves[-1] if leaves else None


def _message(node: Mapping[str, Any]) -> ChatMessage | None:
    message = _object(node.get("message"))
    role = _object(message.get("author")).get("role")
    is_hidden = _object(message.get("metadata")).get("is_visually_hidden_from_conversation")
    is_for_tool = message.get("recipient") not in (None, "all")
    text = _text(message)
    if not isinstance(role, str) or role not in ROLES or is_hidden or is_for_tool or not text:
        return None
    return ChatMessage(str(message.get("id", "")), ROLES[role], text, message.get("create_time"))


def _text(message: Mapping[str, Any]) -> str:
    content = _object(message.get("content"))
    parts = content.get("parts")
    if content.get("content_type") not in CONTENT_TYPES or not isinstance(parts, list):
        return ""
    return joined([_spoken(part) if isinstance(part, dict) else part for part in parts])


def _spoken(part: Mapping[str, Any]) -> str:
    """Return the words of a part that is the transcript of a voice, or ""."""
    text = part.get("text")
    return text if part.get("content_type") == "audio_transcription" and isinstance(text, str) else ""


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def recognizes(start: bytes, name: str) -> bool:
    return service_at_start(start) == CHATGPT
