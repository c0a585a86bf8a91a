"""The data export of Claude: conversations, projects with their documents, and what Claude had remembered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from memory_project.exchange.imports.formats.chat_exports import (
    CLAUDE,
    CLAUDE_FILES,
    CLAUDE_FOLDERS,
    ChatMessage,
    conversation_key,
    has_conversations,
    items_of_files,
    service_at_start,
    turn_rows,
)
from memory_project.exchange.imports.formats.markdown import section_rows, titled
from memory_project.exchange.imports.formats.memory_rows import AGENT_FIELDS, joined, problem_row
from memory_project.exchange.imports.rows import ImportedRow

ROLES = {"human": "human", "assistant": "ai"}
# A file holds a list, or one object if it is in a folder of its own kind.
PATHS = ("item", "")
ACCOUNT_MEMORY, PROJECT_MEMORIES = "conversations_memory", "project_memories"


def read(file: BinaryIO, name: str) -> Iterator[ImportedRow]:
    """Yield turns of the conversations, and memories from the projects' documents and from Claude's own memory."""
    for path, item in items_of_files(file, name, _is_wanted, PATHS):
        if isinstance(item, ImportedRow):
            yield item
            continue
        place = f"{path}, {item.place}"
        yield from [problem_row(place, item.problem)] if item.problem else _rows(place, item.value)


def _is_wanted(path: str) -> bool:
    name = path.rpartition("/")[2]
    is_listed = name in CLAUDE_FILES - {"users.json"} or has_conversations(path)
    return is_listed or (path.endswith(".json") and any(f"/{folder}" in f"/{path}" for folder in CLAUDE_FOLDERS))


def _rows(place: str, value: Mapping[str, Any]) -> Iterator[ImportedRow]:
    if "chat_messages" in value:
        yield from _conversation_rows(place, value)
    elif "docs" in value:
        yield from _project_rows(place, value)
    elif ACCOUNT_MEMORY in value or PROJECT_MEMORIES in value:
        yield from _memory_rows(place, value)
    else:
        yield problem_row(place, "is neither a conversation nor a project nor a memory of Claude")


def _conversation_rows(place: str, conversation: Mapping[str, Any]) -> Iterator[ImportedRow]:
    key = conversation_key(CLAUDE, conversation.get("uuid"))
    values = conversation["chat_messages"]
    if not key or not isinstance(values, list):
        yield problem_row(place, "is not a conversation; allowed: an object with uuid and chat_messages")
        return
    messages = [message for value in values if isinstance(value, dict) and (message := _message(value))]
    if not messages:
        yield problem_row(place, "has no messages with text")
    yield from turn_rows(place, key, conversation.get("name"), messages, conversation.get("created_at"))


def _message(value: Mapping[str, Any]) -> ChatMessage | None:
    role = value.get("sender")
    blocks = value.get("content")
    # A message's blocks are also its thoughts and the calls of tools. Older exports have only the text.
    texts = [block.get("text") for block in blocks if _is_text(block)] if isinstance(blocks, list) else []
    text = joined(texts) or joined([value.get("text")])
    if not isinstance(role, str) or role not in ROLES or not text:
        return None
    return ChatMessage(str(value.get("uuid", "")), ROLES[role], text, value.get("created_at"))


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type", "text") == "text"


def _project_rows(place: str, project: Mapping[str, Any]) -> Iterator[ImportedRow]:
    docs = project["docs"]
    project_name = str(project.get("name") or "")[:200]
    if not isinstance(docs, list) or not docs:
        yield problem_row(place, f"the project {project_name!r} has no documents")
        return
    for number, doc in enumerate(docs, 1):
        where = f"{place}, document {number}"
        if not isinstance(doc, dict) or not isinstance(doc.get("content"), str) or not doc["content"].strip():
            yield problem_row(where, "has no text")
            continue
        file_name = str(doc.get("filename") or "")[:200]
        metadata = {"claude": {"project": project_name, "file": file_name}}
        data = {**AGENT_FIELDS, "created_at": doc.get("created_at"), "metadata": metadata}
        key = f"claude:{doc.get('uuid') or f'{project_name}/{file_name}'}"
        yield from section_rows(where, titled(doc["content"], file_name), data, key=key)


def _memory_rows(place: str, value: Mapping[str, Any]) -> Iterator[ImportedRow]:
    of_projects = value.get(PROJECT_MEMORIES)
    texts = {"": value.get(ACCOUNT_MEMORY), **(of_projects if isinstance(of_projects, dict) else {})}
    for project, text in texts.items():
        if isinstance(text, str) and text.strip():
            where = f"{place}, project {project}" if project else place
            data = {**AGENT_FIELDS, "metadata": {"claude": {"memory_of": project or "account"}}}
            yield from section_rows(where, text.strip(), data, key=f"claude:memory:{project}")
        elif text:
            yield problem_row(place, "has a memory that is not a text")


def recognizes(start: bytes, name: str) -> bool:
    return service_at_start(start) == CLAUDE
