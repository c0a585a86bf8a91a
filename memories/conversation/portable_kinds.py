"""The kinds of rows of conversations that people take along. Turns and long-term memories are memories."""

from __future__ import annotations

from memories.conversation.models import MergeProposal, UserDecision, UserDecisionChange
from memories.models import MemoryRecord
from memories.portability import ExportKind, Parent

DECISION = ExportKind(
    name="user_decision",
    model=UserDecision,
    columns=("id", "created_by", "key", "value", "created_at", "updated_at", "expires_at"),
    owner="created_by",
)

DECISION_CHANGE = ExportKind(
    name="user_decision_change",
    model=UserDecisionChange,
    columns=("decision_id", "value", "valid_from", "valid_to"),
    key=("decision_id", "valid_from", "valid_to"),
    owner="decision__created_by",
    parents=(Parent("decision_id", UserDecision, "created_by"),),
)

MERGE = ExportKind(
    name="merge",
    model=MergeProposal,
    columns=("id", "record_id", "target_id", "cosine", "text", "state", "created_at", "decided_at"),
    owner="record__created_by",
    parents=(
        Parent("record_id", MemoryRecord, "created_by"),
        Parent("target_id", MemoryRecord, "created_by"),
    ),
)

KINDS = (DECISION, DECISION_CHANGE, MERGE)
