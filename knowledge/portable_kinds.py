"""The kinds of rows of the review that people take along: insights with their decisions, and changesets."""

from __future__ import annotations

from typing import Any

from django.db.models import Q

from foundation.operations.errors import Conflict
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from knowledge.models import (
    CaveatWaiver,
    Change,
    Changeset,
    ChangesetApproval,
    Decision,
    Insight,
    InsightState,
    Suggestion,
)
from knowledge.operations import Actions
from knowledge.suggestions.similar import text_key
from memories.models import MemoryRecord, Visibility
from memories.portability import ExportKind, Parent, Values, of_record

UNREVIEWED: dict[str, Any] = {
    "state": InsightState.PENDING, "changeset_id": None, "reviewed_by": "", "reviewed_at": None, "review_notes": "",
    "pending_edit": {}, "edit_by": "", "edit_at": None, "question_at": None, "assignee": "",
    "snoozed_until": None, "target_days": None, "applied_by": "", "applied_at": None,
}  # fmt: skip


def adapt_insight(caller: Caller, values: Values, remarks: list[str]) -> None:
    """Make an insight a proposal that waits for review: nobody can import the decision of a curator."""
    actions = validate(Actions, values["suggested_actions"], "suggested_actions")
    values["suggested_actions"] = [action.as_action() for action in actions]
    memory = MemoryRecord.objects.filter(pk=values["record_id"], created_by=caller.email)
    if memory.exclude(visibility=Visibility.PRIVATE).exists():
        raise Conflict("belongs to a memory that is shared already", field="record_id")
    state = InsightState.SUPERSEDED if values["state"] == InsightState.SUPERSEDED else InsightState.PENDING
    if values["state"] not in (InsightState.PENDING, InsightState.SUPERSEDED):
        remarks.append(f"It was {values['state']}, and waits for review here.")
    values.update(UNREVIEWED, state=state)


INSIGHT = ExportKind(
    name="insight",
    model=Insight,
    columns=(
        "record_id", "state", "suggested_actions", "wanted_visibility", "replaces_id", "beside_id", "changeset_id",
        "reviewed_by", "reviewed_at", "review_notes", "pending_edit", "edit_by", "edit_at", "question_at", "assignee",
        "snoozed_until", "target_days", "applied_by", "applied_at",
    ),
    key=("record_id",),
    owner="record__created_by",
    parents=(
        Parent("record_id", MemoryRecord, "created_by"),
        Parent("replaces_id", MemoryRecord, "created_by", is_optional=True),
        Parent("beside_id", MemoryRecord, "created_by", is_optional=True),
        Parent("changeset_id", Changeset, "applied_by", is_optional=True),
    ),
    of_persona=of_record,
    adapt=adapt_insight,
)  # fmt: skip

DECISION = ExportKind(
    name="decision",
    model=Decision,
    columns=("insight_id", "kind_of_decision", "by", "at", "notes", "before", "overturns"),
    lookups={"kind_of_decision": "kind"},
    key=("insight_id", "at", "kind_of_decision", "by"),
    owner="insight__record__created_by",
    order=("insight_id", "at", "id"),
    parents=(Parent("insight_id", Insight, "record__created_by"),),
    stated_by="by",
    of_persona=lambda persona: Q(insight__in=Insight.objects.filter(of_record(persona))),
)

# A changeset belongs to no person: whoever applied it wrote to the catalog of everyone.
CHANGESET = ExportKind(
    name="changeset",
    model=Changeset,
    columns=(
        "id", "created_at", "entity_urn", "persona", "personas", "catalog", "state", "insight_ids", "applied_by",
        "finished_at", "rolled_back_by", "rolled_back_at", "error", "risks",
    ),
    added={"risks": []},
    owner="",
    of_persona=lambda persona: Q(personas__contains=[persona]),
)  # fmt: skip

CHANGE = ExportKind(
    name="change",
    model=Change,
    columns=(
        "changeset_id", "position", "request", "change_type", "urn", "aspect", "path", "operation", "had_before",
        "before", "before_erased", "written", "creates", "outcome", "error",
    ),
    key=("changeset_id", "position"),
    owner="",
    parents=(Parent("changeset_id", Changeset, ""),),
    of_persona=lambda persona: Q(changeset__personas__contains=[persona]),
)  # fmt: skip

CHANGESET_APPROVAL = ExportKind(
    name="changeset approval",
    model=ChangesetApproval,
    columns=("changeset_id", "by", "at", "verdict", "notes"),
    key=("changeset_id", "at", "by"),
    owner="",
    parents=(Parent("changeset_id", Changeset, ""),),
    of_persona=lambda persona: Q(changeset__personas__contains=[persona]),
)


CAVEAT_WAIVER = ExportKind(
    name="caveat_waiver",
    model=CaveatWaiver,
    columns=("record_id", "urn", "column", "reason", "by", "at", "content_key", "withdrawn_by", "withdrawn_at"),
    key=("record_id", "urn", "column", "at"),
    owner="record__created_by",
    parents=(Parent("record_id", MemoryRecord, "created_by"),),
    stated_by="by",
    names=frozenset({"withdrawn_by"}),
    of_persona=of_record,
)


def prepare_suggestion(suggestion: Suggestion) -> None:
    suggestion.text_key = text_key(suggestion.text)


SUGGESTION = ExportKind(
    name="suggestion",
    model=Suggestion,
    columns=(
        "id", "owner", "created_at", "kind_of_suggestion", "text", "evidence", "entities", "source", "program",
        "repository", "session", "times_seen", "state", "decided_at", "expires_at", "record_id", "stored_new",
    ),
    lookups={"kind_of_suggestion": "kind"},
    owner="owner",
    parents=(Parent("record_id", MemoryRecord, "created_by", is_optional=True),),
    prepare=prepare_suggestion,
)  # fmt: skip

KINDS = (CHANGESET, CHANGE, CHANGESET_APPROVAL, INSIGHT, DECISION, CAVEAT_WAIVER, SUGGESTION)

INSIGHT_COLUMNS = {  # of an exported list
    "id": "pk", "state": "state", "created_at": "record__created_at", "created_by": "record__created_by",
    "persona": "record__persona", "category": "record__category", "confidence": "record__confidence",
    "content": "record__content", "entity_urns": "record__entity_urns", "suggested_actions": "suggested_actions",
    "reviewed_by": "reviewed_by", "reviewed_at": "reviewed_at", "review_notes": "review_notes",
    "applied_by": "applied_by", "applied_at": "applied_at", "changeset": "changeset_id",
}  # fmt: skip
