"""Import of conversations from other programs, turn by turn, so that a repeated import adds only what is new."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from foundation.operations.errors import check_choice
from foundation.operations.operation import validate
from foundation.people.caller import Caller, require_user
from memories.conversation.operations import ROLES, ConversationId, TurnText
from memories.conversation.turns import Turn, lock_conversation, new_turns
from memories.models import MemoryRecord, Status, Tier, Visibility
from memories.models.index_job import Trigger
from memories.retrieval import indexing
from memories.writing.revision import save_many


def check_turn(conversation_id: object, turn: Turn) -> None:
    """Raise Invalid if the turn can't be imported."""
    validate(ConversationId, conversation_id, "conversation_id")
    validate(TurnText, turn.text, "content")
    check_choice("role", turn.role, ROLES)


def import_turns(caller: Caller, *, conversation_id: str, turns: Sequence[Turn]) -> list[tuple[MemoryRecord, bool]]:
    """Store turns of one conversation at their positions, as private turns that never expire.

    Return for each turn the record at its position, and whether it is new. An existing record is left as it is, even if
    its text differs. Raises Invalid if a turn is invalid; then none is stored. Workers compute the vectors later.
    """
    require_user(caller)
    for turn in turns:
        check_turn(conversation_id, turn)
    with transaction.atomic():
        lock_conversation(caller, conversation_id)
        existing = MemoryRecord.objects.filter(
            created_by=caller.email,
            conversation_id=conversation_id,
            tier=Tier.SHORT_TERM,
            thread_position__in=[turn.position for turn in turns],
        ).exclude(status=Status.ARCHIVED)  # deleted turns can be imported again
        record_at = {record.thread_position: record for record in existing.defer("search")}
        new = {turn.position: turn for turn in turns if turn.position not in record_at}
        records = new_turns(caller, conversation_id, list(new.values()), Tier.SHORT_TERM, Visibility.PRIVATE, None)
        save_many([(record, None) for record in records])
        indexing.enqueue("memory", [record.pk for record in records], Trigger.WRITE)
    created = {record.thread_position: record for record in records}
    results: list[tuple[MemoryRecord, bool]] = []
    for turn in turns:
        is_new = turn.position in created and turn is new.get(turn.position)
        results.append((created.get(turn.position) or record_at[turn.position], is_new))
    return results
