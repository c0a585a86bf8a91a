"""Taking over imported conversations as turns."""

from __future__ import annotations

import copy
import io
import json
from typing import Any
from uuid import UUID

import pytest

from foundation.people.caller import Caller
from memories.conversation.deletion import delete_memories
from memories.conversation.operations import DeleteMemories, RecallConversations
from memories.conversation.recall import recall_conversations
from memories.models import IndexJob, MemoryRecord
from memory_project.exchange.imports.conversation_rows import import_turn_rows
from memory_project.exchange.imports.formats import FORMATS
from memory_project.exchange.imports.rows import TakeOverOutcome
from tests.memory_project.import_samples import CHATGPT_CONVERSATION, CLAUDE_CONVERSATION

pytestmark = pytest.mark.django_db


def turns_of(name: str, conversation: dict[str, Any]) -> list[dict[str, Any]]:
    file = io.BytesIO(json.dumps([conversation]).encode())
    return [dict(row.data) for row in FORMATS[name].read(file, "conversations.json") if row.kind == "turn"]


CHATGPT_TURNS = turns_of("chatgpt", CHATGPT_CONVERSATION)
CLAUDE_TURNS = turns_of("claude", CLAUDE_CONVERSATION)


def taken(outcomes: list[TakeOverOutcome]) -> list[str]:
    return [outcome.outcome for outcome in outcomes]


def test_turns_are_private_and_never_expire(alice: Caller) -> None:
    outcomes = import_turn_rows(alice, CHATGPT_TURNS)
    assert taken(outcomes) == ["kept", "kept"]
    first, second = MemoryRecord.objects.order_by("thread_position")
    assert [outcome.reference for outcome in outcomes] == [first.pk.hex, second.pk.hex]
    assert (first.created_by, first.visibility, first.tier, first.expires_at) == (alice.email, "private", "stm", None)
    assert (first.role, second.role, second.content) == ("human", "ai", "Orders with at least one pallet.")
    assert first.created_at.isoformat() == "2025-12-14T00:19:33.680000+00:00"
    assert set(IndexJob.objects.values_list("source_id", flat=True)) == {first.pk, second.pk}


def test_a_repeated_import_adds_only_new_turns(alice: Caller) -> None:
    first = import_turn_rows(alice, CHATGPT_TURNS[:1])
    assert taken(import_turn_rows(alice, [*CLAUDE_TURNS, *CHATGPT_TURNS])) == ["kept", "kept", "duplicate", "kept"]
    again = import_turn_rows(alice, CHATGPT_TURNS)
    assert taken(again) == ["duplicate", "duplicate"]
    assert again[0].reference == first[0].reference
    assert MemoryRecord.objects.count() == 4


def test_another_message_at_the_same_position_is_kept_apart(alice: Caller) -> None:
    import_turn_rows(alice, CHATGPT_TURNS)
    (outcome,) = import_turn_rows(alice, [CHATGPT_TURNS[0] | {"content": "An edited question."}])
    assert outcome.outcome == "conflicting"
    assert "another message" in outcome.reason
    assert not MemoryRecord.objects.filter(content="An edited question.").exists()


def test_the_same_conversation_of_two_people(alice: Caller, bob: Caller) -> None:
    assert (
        taken(import_turn_rows(alice, CHATGPT_TURNS)) == taken(import_turn_rows(bob, CHATGPT_TURNS)) == ["kept", "kept"]
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"position": -1}, "position: "),
        ({"position": True}, "position: "),
        ({"position": 2**40}, "position: "),
        ({"role": "system"}, "role: "),
        ({"role": None}, "role: "),
        ({"content": ""}, "content: "),
        ({"content": "a \0 b"}, "content: "),
        ({"content": "x" * 20_001}, "content: "),
        ({"content": 5}, "content: "),
        ({"conversation_id": ""}, "conversation_id: "),
        ({"conversation_id": "x" * 300}, "conversation_id: "),
        ({"conversation_id": [1]}, "conversation_id: "),
        ({"created_at": "soon"}, "created_at: "),
        ({"created_at": "2026-01-01T00:00:00"}, "created_at: "),
        ({"created_at": 5}, "created_at: "),
    ],
)
def test_a_faulty_turn_does_not_affect_others(alice: Caller, change: dict[str, Any], problem: str) -> None:
    refused, kept = import_turn_rows(alice, [CHATGPT_TURNS[0] | change, CHATGPT_TURNS[1]])
    assert (refused.outcome, kept.outcome) == ("refused", "kept")
    assert refused.reason.startswith(problem)


def test_imported_turns_are_found_by_their_owner_only(alice: Caller, bob: Caller) -> None:
    import_turn_rows(alice, CHATGPT_TURNS)
    for caller, count in ((alice, 1), (bob, 0)):
        query = RecallConversations(user_id=caller.email, query="orders with at least one pallet", limit=1)
        assert len(recall_conversations(caller, query).results) == count


def test_deleted_turns_can_be_imported_again(alice: Caller) -> None:
    (kept, _) = import_turn_rows(alice, CHATGPT_TURNS)
    delete_memories(alice, DeleteMemories(user_id=alice.email, memory_id=UUID(kept.reference)))
    assert taken(import_turn_rows(alice, CHATGPT_TURNS)) == ["kept", "duplicate"]


def test_spoken_words_are_read() -> None:
    conversation: dict[str, Any] = copy.deepcopy(CHATGPT_CONVERSATION)
    node = next(node for node in conversation["mapping"].values() if text_of(node))
    spoken = {"content_type": "audio_transcription", "text": "When does the load end?", "direction": "in"}
    audio = {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://file"}
    node["message"]["content"] = {"content_type": "multimodal_text", "parts": [spoken, audio]}
    assert "When does the load end?" in [turn["content"] for turn in turns_of("chatgpt", conversation)]


def text_of(node: dict[str, Any]) -> str:
    message = node.get("message") or {}
    is_person = (message.get("author") or {}).get("role") == "user"
    return "".join((message.get("content") or {}).get("parts") or []) if is_person else ""
