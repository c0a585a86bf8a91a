"""Taking over turns of conversations that an import has read. Turns are rows of the kind "turn"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.utils.translation import gettext

from foundation.operations.errors import Invalid
from foundation.people.caller import Caller
from memories.conversation.turn_import import check_turn, import_turns
from memories.conversation.turns import Turn
from memory_project.exchange.imports.rows import TakeOverOutcome

OTHER_TEXT = "The conversation has another message at this position, because it was continued differently."


def check_turn_row(data: Mapping[str, Any]) -> None:
    """Raise Invalid if a row of the kind "turn" can't be taken over."""
    position = data.get("position")
    if not isinstance(position, int) or isinstance(position, bool) or not 0 <= position < 2**31:
        raise Invalid(gettext("is not a position"), field="position", allowed=gettext("a number from 0"))
    created_at = data.get("created_at")
    try:
        is_time = created_at is None or datetime.fromisoformat(created_at).tzinfo is not None
    except (TypeError, ValueError):
        is_time = False
    if not is_time:
        raise Invalid(gettext("is not a time"), field="created_at", allowed=gettext("ISO 8601 with an offset"))
    check_turn(data.get("conversation_id"), _turn(data))


def import_turn_rows(caller: Caller, rows: Sequence[Mapping[str, Any]]) -> list[TakeOverOutcome]:
    """Store the turns as private turns of the caller, and return for each row what became of it."""
    outcomes: dict[int, TakeOverOutcome] = {}
    conversations: dict[str, list[int]] = {}
    for number, data in enumerate(rows):
        try:
            check_turn_row(data)
        except Invalid as error:
            outcomes[number] = TakeOverOutcome("refused", error.message)
        else:
            conversations.setdefault(data["conversation_id"], []).append(number)
    for conversation_id in sorted(conversations):  # in one order, so that parallel imports can't block each other
        numbers = conversations[conversation_id]
        turns = [_turn(rows[number]) for number in numbers]
        results = import_turns(caller, conversation_id=conversation_id, turns=turns)
        for number, turn, (record, is_new) in zip(numbers, turns, results, strict=True):
            if is_new:
                outcomes[number] = TakeOverOutcome("kept", reference=record.pk.hex)
            elif record.content == turn.text:
                outcomes[number] = TakeOverOutcome("duplicate", reference=record.pk.hex)
            else:
                outcomes[number] = TakeOverOutcome("conflicting", OTHER_TEXT)
    return [outcomes[number] for number in range(len(rows))]


def _turn(data: Mapping[str, Any]) -> Turn:
    created_at = data.get("created_at")
    return Turn(
        author="",
        text=data.get("content", ""),
        at=datetime.fromisoformat(created_at) if isinstance(created_at, str) else None,
        position=data.get("position"),
        role=data.get("role", ""),
    )
