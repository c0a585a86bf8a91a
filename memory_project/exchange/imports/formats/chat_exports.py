"""Common parts of the exports of ChatGPT and Claude: a zip archive with JSON files, or one of these files.

A conversation becomes turns of a conversation, which can be searched but are no memories. Texts that the program had
kept about the person become memories.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from foundation.operations.errors import Invalid
from memories.conversation.operations import MAX_MESSAGE
from memory_project.exchange.imports.formats.archives import Archive, is_archive, members_at_start
from memory_project.exchange.imports.formats.json_items import NOTHING, Item, keys_at_start, read_items
from memory_project.exchange.imports.formats.memory_rows import (
    is_storable,
    past_or_none,
    problem_row,
    split_text,
    storable,
)
from memory_project.exchange.imports.rows import ImportedRow

CONVERSATIONS = re.compile(r"conversations(?:-\d+)?\.json")  # large exports have several numbered files
CHATGPT_FILES = {
    "chat.html", "user.json", "message_feedback.json", "model_comparisons.json", "shared_conversations.json",
    "conversation_asset_file_names.json",
}  # fmt: skip
CLAUDE_FILES = {"users.json", "projects.json", "memories.json"}
CLAUDE_FOLDERS = ("projects/", "memories/")
CHATGPT, CLAUDE = "chatgpt", "claude"
TURN = "turn"


@dataclass(frozen=True)
class ChatMessage:
    key: str
    role: str  # "human" or "ai"
    text: str
    created_at: Any


def has_conversations(path: str) -> bool:
    return bool(CONVERSATIONS.fullmatch(path.rpartition("/")[2]))


def json_files(
    file: BinaryIO, name: str, is_wanted: Callable[[str], bool]
) -> Iterator[tuple[str, BinaryIO | ImportedRow]]:
    """Yield name and content of each wanted JSON file, or a row with the reason why it can't be read."""
    start = file.read(4)
    file.seek(0)
    if not is_archive(start):
        yield name, file
        return
    archive = Archive(file)
    wanted = [member for member in archive.members if is_wanted(member.path)]
    if not wanted:
        raise Invalid("has no conversations.json", field="file", allowed="the zip archive as it was downloaded")
    for member in wanted:
        if member.problem:
            yield member.path, problem_row(member.path, member.problem)
        else:
            with archive.open(member) as stream:
                yield member.path, stream


def items_of_files(
    file: BinaryIO, name: str, is_wanted: Callable[[str], bool], paths: Collection[str]
) -> Iterator[tuple[str, Item | ImportedRow]]:
    """Yield the path and each item of an export's files, or a row with a problem.

    A file without items loses nothing of the others: an account without projects has an empty list of them. Raises
    Invalid if no file has an item.
    """
    is_empty = True
    refusal = None
    problems: list[tuple[str, ImportedRow]] = []
    for path, content in json_files(file, name, is_wanted):
        if isinstance(content, ImportedRow):
            yield path, content
            continue
        try:
            for item in read_items(content, paths):
                is_empty = False
                yield path, item
        except Invalid as error:
            refusal = refusal or error
            if error.fault != NOTHING:
                problems.append((path, problem_row(path, error.fault)))
    if refusal is not None and is_empty:
        raise refusal
    yield from problems


def turn_rows(
    place: str, conversation_id: str, title: Any, messages: Sequence[ChatMessage], started: Any = None
) -> Iterator[ImportedRow]:
    """Yield the turns of a conversation. A message that is too long for one turn becomes several.

    A message without a time gets the latest earlier one of its conversation, or when that `started`. Otherwise it would
    be as new as the import.
    """
    position = 0
    times = [past_or_none(message.created_at) for message in messages]
    latest = past_or_none(started) or next(filter(None, times), None)
    for number, message in enumerate(messages, 1):
        stated = times[number - 1]
        latest = max(filter(None, [latest, stated]), default=None)  # texts in UTC, which sort by time
        where = f"{place}, message {number}"
        if not is_storable(message.text):
            yield problem_row(where, "contains a NUL character or half a surrogate pair")
            continue
        for piece in split_text(message.text, MAX_MESSAGE):
            data = {
                "conversation_id": conversation_id,
                "title": storable(title)[:200] if isinstance(title, str) else "",
                "position": position,
                "role": message.role,
                "content": piece,
                "created_at": stated or latest,
            }
            yield ImportedRow(storable(where), data, kind=TURN, key=f"{conversation_id}#{position}")
            position += 1


def conversation_key(service: str, value: Any) -> str:
    """Return the id of a conversation with the name of its service, or "" if the export's id can't be one."""
    is_id = isinstance(value, str) and 0 < len(value) <= 100 and value.isprintable()
    return f"{service}:{value}" if is_id else ""


def service_at_start(start: bytes) -> str:
    """Return which service has written a file or an archive, or "" if neither has."""
    if not is_archive(start):
        return _service_of_keys(keys_at_start(start))
    members = list(members_at_start(start))
    for path, content in members:
        if path.endswith(".json") and (service := _service_of_keys(keys_at_start(content))):
            return service
    paths = {path for path, _ in members}
    names = {path.rpartition("/")[2] for path in paths}
    if names & CHATGPT_FILES:
        return CHATGPT
    return CLAUDE if names & CLAUDE_FILES and any(path.endswith(".json") for path in paths) else ""


def _service_of_keys(keys: dict[str, set[str]]) -> str:
    items = keys.get("item", set())
    whole = keys.get("", set())
    if items >= {"mapping", "title"}:
        return CHATGPT
    is_project = {"uuid", "name", "docs"}
    memories = {"conversations_memory"}
    if any(found >= wanted for found in (items, whole) for wanted in ({"uuid", "chat_messages"}, is_project, memories)):
        return CLAUDE
    return ""
