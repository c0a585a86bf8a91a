"""Bulk actions of curators on insights and changesets."""

from __future__ import annotations

from datetime import datetime

from foundation.operations.operation import validate
from knowledge.changesets import rollback
from knowledge.review import clarifications, decisions, snooze, suggested
from memories.writing.bulk_actions import BulkAction

INSIGHT_ACTIONS = {
    "approve": BulkAction(
        "Approved",
        lambda caller, pk, words: decisions.approve(caller, insight_id=pk, notes=words.note, seen=words.seen),
        inverse="undo_review",
        kind="insight",
    ),
    "reject": BulkAction(
        "Rejected",
        lambda caller, pk, words: decisions.reject(caller, insight_id=pk, notes=words.note, seen=words.seen),
        inverse="undo_review",
        kind="insight",
    ),
    "undo_review": BulkAction(
        "Returned to the queue",
        lambda caller, pk, words: decisions.undo_review(caller, insight_id=pk, seen=words.seen),
        kind="insight",
    ),
    "needs_more": BulkAction(
        "Sent back to the author with a question",
        lambda caller, pk, words: clarifications.request_changes(
            caller, insight_id=pk, notes=words.note, seen=words.seen
        ),
        inverse="undo_review",
        kind="insight",
    ),
    "hand_over": BulkAction(
        "Handed to a colleague",
        lambda caller, pk, words: clarifications.reassign(
            caller, insight_id=pk, to=words.choice, notes=words.note, seen=words.seen
        ),
        inverse="undo_review",
        kind="insight",
    ),
    "snooze": BulkAction(
        "Snoozed",
        lambda caller, pk, words: snooze.snooze(
            caller,
            insight_id=pk,
            until=validate(datetime, words.choice, "until"),
            notes=words.note,
            seen=words.seen,
        ),
        inverse="undo_review",
        kind="insight",
    ),
    "apply": BulkAction(
        "Applied",
        lambda caller, pk, words: suggested.apply_at_once(caller, insight_id=pk, seen=words.seen),
        inverse="roll_back_insight",
        kind="insight",
        is_slow=True,
    ),
    "roll_back_insight": BulkAction(
        "Rolled back",
        lambda caller, pk, words: suggested.roll_back(caller, insight_id=pk),
        kind="insight",
        is_slow=True,
    ),
    "roll_back": BulkAction(
        "Rolled back",
        lambda caller, pk, words: rollback.roll_back(caller, changeset_id=pk),
        kind="changeset",
        is_slow=True,
    ),
}
