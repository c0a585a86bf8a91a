"""What errors suggest: an obedient caller follows it, so no suggestion may destroy knowledge or overrule a person.

The first test reads all refusals in the code. The others follow the suggestions about memories to their end.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from django.core.management import get_commands

from foundation.operations.errors import Conflict, DomainError, Forbidden, Invalid
from foundation.people.caller import Caller
from memories import services
from memories.mcp_tools import memory_manage
from memories.models import MemoryRecord
from memories.operations import Remember
from tests.memories.facts import remember

ROOT = Path(__file__).resolve().parent.parent
APPS = ("foundation", "memories", "knowledge", "analysis", "memory_project")
REFUSALS = {error.__name__ for error in DomainError.__subclasses__()} | {"validation_error", "ChangedMeanwhile"}
HARM = re.compile(
    r"(?<!-)\b(delete|remove|erase|forget|archive (it|them|the)|discard|overwrite|override|invalidate_all)\b", re.I
)
# Suggestions with such a word that are safe, and why.
SAFE = {
    "is not set, so nothing was erased: forget archives the memory and can be undone; erasing can't be, and needs a "
    "person's yes": "names the step that keeps the text",
    '{"add": [tags], "remove": [tags]}': "tags can be added again",
    "the same text is already remembered, as %(memory)s: forget this memory and use that one": "the caller gives "
    "up the text of this memory, and the other one has the text that replaces it",
    "is missing: tick the box to remove the document": "a person has chosen to, on a page",
    "is missing: tick the box to delete the webhook": "a person has chosen to, on a page",
    "another identity of your company is linked with this account; an admin can remove that link": "a link, no text",
}


INTERFACE = ROOT / "tests/data/interface"
NAME = re.compile(r"(?<![%(\w.-])[A-Za-z]+(?:_[A-Za-z0-9]+)+\b")
ELSEWHERE = {"impersonation_header", "information_schema"}  # a key of a declaration, and a schema of databases
PROSE = ("finds", "first", "by", "and", "so", "returns", "returned")  # words after the name of a tool


@cache
def refusals() -> list[tuple[str, str]]:
    """Return the place and each text of every refusal."""
    return list(_refusals())


def _refusals() -> Iterator[tuple[str, str]]:
    for app in APPS:
        for file in sorted((ROOT / app).rglob("*.py")):
            if "migrations" in file.parts:
                continue
            for node in ast.walk(ast.parse(file.read_text())):
                name = getattr(getattr(node, "func", None), "id", "")
                if isinstance(node, ast.Call) and name in REFUSALS:
                    for part in ast.walk(node):
                        if isinstance(part, ast.Constant) and isinstance(part.value, str) and " " in part.value:
                            yield f"{file.relative_to(ROOT)}:{node.lineno}", part.value


def advice_of(text: str) -> str:
    """Return what a refusal suggests: what follows its colon, or all of it if it has none."""
    return text.partition(": ")[2] or text


def test_no_refusal_suggests_what_destroys_knowledge() -> None:
    texts = refusals()
    assert len(texts) > 800
    harmful = [f"{place}: {text}" for place, text in texts if text not in SAFE and HARM.search(advice_of(text))]
    assert harmful == []


def test_the_safe_ones_are_still_there() -> None:
    assert SAFE.keys() <= {text for _, text in refusals()}


def test_what_a_refusal_names_exists() -> None:
    """Tools, commands, arguments, fields and settings: a step that does not exist can't be followed."""
    known = set(words_of(INTERFACE / "tools.json")) | set(words_of(INTERFACE / "openapi.json")) | set(get_commands())
    known |= set(re.findall(r'"([A-Z][A-Z0-9_]+)"', (ROOT / "memory_project/settings.py").read_text()))
    missing = [
        f"{place}: {word} in {text}"
        for place, text in refusals()
        for word in NAME.findall(text)
        if word not in known | ELSEWHERE
    ]
    assert missing == []


def test_a_refusal_names_a_tool_with_one_of_its_commands_or_arguments() -> None:
    tools = json.loads((INTERFACE / "tools.json").read_text())
    wrong = []
    for tool in (*tools["all"], *tools["anthropic"]):
        properties = tool["input_schema"]["properties"]
        choices = {choice for each in properties.values() for choice in each.get("enum", ())}
        following = re.compile(rf"\b{tool['name']}\b,? (?:with |command |the command )?(\w+)")
        wrong += [
            f"{place}: {tool['name']} {word}"
            for place, text in refusals()
            for word in following.findall(text)
            if word not in {*properties, *choices, *PROSE}
        ]
    assert wrong == []


def words_of(file: Path) -> Iterator[str]:
    """Yield the keys of a JSON document, and its texts that are one word."""
    waiting = [json.loads(file.read_text())]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield from value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and value.isidentifier():
            yield value


def message_of(caller: Caller, command: str, **arguments: object) -> str:
    with pytest.raises((Conflict, Forbidden, Invalid)) as caught:
        memory_manage(caller, command, **arguments)
    return caught.value.message


@pytest.mark.django_db
def test_the_end_of_a_chain_of_corrections_is_named_and_can_be_changed(alice: Caller) -> None:
    first = remember(alice)
    second = memory_manage(alice, "supersede", id=first, content="Revenue excludes refunds of stores.")["id"]
    third = memory_manage(alice, "supersede", id=second, content="Revenue excludes all refunds.")["id"]
    for command, values in (
        ("update", {"tags": ["a"]}),
        ("verify", {}),
        ("restore", {}),
        ("supersede", {"content": "Revenue excludes no refunds."}),
        ("feedback", {"verdict": "wrong"}),
    ):
        message = message_of(alice, command, id=first, **values)
        assert f"was superseded by {third}: change that one instead" in message, command
    assert memory_manage(alice, "update", id=third, tags=["a"])["message"] == "updated"
    assert set(MemoryRecord.objects.values_list("status", flat=True)) == {"superseded", "active"}


@pytest.mark.django_db
def test_an_archived_memory_is_restored_by_its_owner_alone(alice: Caller, ada: Caller) -> None:
    record = remember(alice)
    memory_manage(alice, "forget", id=record)
    message = message_of(alice, "verify", id=record)
    assert "is archived: restore it first, if it still holds" in message
    assert memory_manage(alice, "restore", id=record)["status"] == "active"
    assert memory_manage(alice, "verify", id=record)["message"] == "still true, as of now"


@pytest.mark.django_db
def test_the_archived_correction_is_named_where_the_corrected_text_is_changed(alice: Caller) -> None:
    first = remember(alice)
    second = memory_manage(alice, "supersede", id=first, content="Revenue excludes refunds of stores.")["id"]
    memory_manage(alice, "forget", id=second)
    assert f"was superseded by {second}, which is archived" in message_of(alice, "update", id=first, tags=["a"])
    assert memory_manage(alice, "restore", id=second)["status"] == "active"


@pytest.mark.django_db
def test_a_colleague_learns_how_to_propose_a_correction(alice: Caller, bob: Caller) -> None:
    record = services.remember(alice, Remember(content="Revenue excludes refunds.")).record
    message = message_of(bob, "supersede", id=record.pk.hex, content="Revenue includes refunds.")
    assert "capture_insight with supersedes" in message
    assert memory_manage(bob, "feedback", id=record.pk.hex, verdict="wrong")["message"] == "noted"


@pytest.mark.django_db
def test_a_colleague_is_not_sent_to_correct_what_is_archived(alice: Caller, bob: Caller) -> None:
    record = services.remember(alice, Remember(content="Revenue excludes refunds.")).record
    memory_manage(alice, "forget", id=record.pk.hex)
    message = message_of(bob, "restore", id=record.pk.hex)
    assert ("its owner or an admin can restore it" in message, "feedback" in message) == (True, False)
