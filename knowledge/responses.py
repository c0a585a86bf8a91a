"""Responses of the insight, changeset and catalog tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict

from knowledge.catalog.entity_view import EntityView
from knowledge.catalog.interface import EntitySummary
from knowledge.catalog.json_patch import ABSENT
from knowledge.catalog.usage import CatalogUsage
from knowledge.changesets import risk
from knowledge.changesets.change_request import CHANGE_TYPES
from knowledge.changesets.diff import ingested_description
from knowledge.changesets.planning import Planned
from knowledge.models import Change, Changeset, Insight

USERS_SHOWN = 20  # maximum number of entities that are listed as users of a removed entity
SUMMARY_SHOWN = 300  # maximum number of characters of a description in search results


class InsightResponse(TypedDict, total=False):
    id: str
    insight_text: str
    category: str
    confidence: str
    source: str
    state: str
    status: str
    captured_by: str
    persona: str
    created_at: str
    entity_urns: list[str]
    related_columns: list[dict[str, str]]
    suggested_actions: list[dict[str, str]]
    replaces: str | None
    summary: str
    tags: list[str]
    wanted_visibility: str
    reviewed_by: str
    reviewed_at: str | None
    review_notes: str
    applied_by: str
    applied_at: str | None
    changeset_id: str | None
    edited_by: str
    pending_edit: dict[str, Any]
    edit_by: str
    withdrawn: bool
    seen: str
    evidence: dict[str, Any]
    check: str


class ChangeResponse(TypedDict, total=False):
    change_type: str
    does: str
    urn: str
    aspect: str
    path: list[str]
    before: Any
    was_absent: bool
    after: Any
    removes: bool
    outcome: str
    error: str
    before_is_ingested: bool
    relied_on_by: list[str]  # ids of insights for which a rollback keeps the value


class UsageResponse(TypedDict, total=False):
    urn: str
    name: str
    users: list[dict[str, str]]
    users_total: int
    note: str


class ApprovalResponse(TypedDict):
    by: str
    at: str
    verdict: str
    notes: str


class ChangesetResponse(TypedDict, total=False):
    changeset_id: str
    entity_urn: str
    state: str
    catalog: str
    created_at: str
    applied_by: str
    insight_ids: list[str]
    rolled_back_by: str
    rolled_back_at: str | None
    error: str
    risks: list[str]
    approvals: list[ApprovalResponse]
    changes_count: int
    changes: list[ChangeResponse]


def insight_response(insight: Insight) -> InsightResponse:
    record = insight.record
    response: InsightResponse = {
        "id": insight.pk.hex,
        "insight_text": record.content,
        "category": record.category,
        "confidence": record.confidence,
        "source": record.source,
        "state": insight.state,
        "status": record.status,
        "captured_by": record.created_by,
        "persona": record.persona,
        "created_at": record.created_at.isoformat(),
        "entity_urns": record.entity_urns,
        "related_columns": record.related_columns,
        "suggested_actions": insight.suggested_actions,
        "replaces": insight.replaces_id.hex if insight.replaces_id else None,
        "wanted_visibility": insight.wanted_visibility,
        "reviewed_by": insight.reviewed_by,
        "reviewed_at": insight.reviewed_at.isoformat() if insight.reviewed_at else None,
        "review_notes": insight.review_notes,
        "applied_by": insight.applied_by,
        "applied_at": insight.applied_at.isoformat() if insight.applied_at else None,
        "changeset_id": insight.changeset_id.hex if insight.changeset_id else None,
    }
    if record.summary:
        response["summary"] = record.summary
    if record.tags:
        response["tags"] = record.tags
    if record.edited_by:
        response["edited_by"] = record.edited_by
    if insight.pending_edit:
        response["pending_edit"] = insight.pending_edit
        response["edit_by"] = insight.edit_by
    if insight.is_withdrawn:
        response["withdrawn"] = True
    return response


def planned_response(planned: Planned, entities: Mapping[str, EntityView] | None = None) -> ChangeResponse:
    """Return the response for a planned write.

    If it sets a description that nobody has edited yet, `before` is the ingested description from `entities`.
    """
    write = planned.step.write
    before = planned.before
    ingested = ingested_description((entities or {}).get(write.urn), write.path) if before is ABSENT else ABSENT
    before = before if ingested is ABSENT else ingested
    absent = before is ABSENT
    response: ChangeResponse = {
        "change_type": planned.change_type,
        "does": CHANGE_TYPES[planned.change_type].label,
        "urn": write.urn,
        "aspect": write.aspect,
        "path": list(write.path),
        "before": None if absent else before,
        "was_absent": absent,
        "after": write.value,
        "removes": write.operation == "remove",
        "outcome": "noop" if planned.is_noop else "planned",
    }
    if ingested is not ABSENT:
        response["before_is_ingested"] = True
    return response


def change_response(change: Change) -> ChangeResponse:
    return {
        "change_type": change.change_type,
        "urn": change.urn,
        "aspect": change.aspect,
        "path": change.path,
        "before": change.before,
        "was_absent": not change.had_before,
        "after": change.written,
        "removes": change.operation == "remove",
        "outcome": change.outcome,
        "error": change.error,
    }


def usage_response(usage: CatalogUsage) -> UsageResponse:
    shown = [{"urn": urn, "name": name} for urn, name in usage.users.items()][:USERS_SHOWN]
    response: UsageResponse = {"urn": usage.urn, "name": usage.name}
    if not usage.is_unknown:
        response |= {"users": shown, "users_total": len(usage.users)}
    if usage.note:
        response["note"] = usage.note
    return response


def changeset_response(changeset: Changeset, changes: list[Change] | None = None) -> ChangesetResponse:
    response: ChangesetResponse = {
        "changeset_id": changeset.pk.hex,
        "entity_urn": changeset.entity_urn,
        "state": changeset.state,
        "catalog": changeset.catalog,
        "created_at": changeset.created_at.isoformat(),
        "applied_by": changeset.applied_by,
        "insight_ids": changeset.insight_ids,
        "rolled_back_by": changeset.rolled_back_by,
        "rolled_back_at": changeset.rolled_back_at.isoformat() if changeset.rolled_back_at else None,
        "error": changeset.error,
    }
    if changeset.risks:
        response["risks"] = risk.in_words(changeset.risks)
    if changes is not None:
        response["changes_count"] = len(changes)
        response["changes"] = [change_response(change) for change in changes]
        if changeset.risks:
            response["approvals"] = [
                {"by": row.by, "at": row.at.isoformat(), "verdict": row.verdict, "notes": row.notes}
                for row in changeset.approvals.all()
            ]
    return response


def summary_response(summary: EntitySummary) -> dict[str, Any]:
    """Return a catalog entity as a search result, without values that are empty or false.

    The passage that matched the query replaces the description, unless the beginning of the description contains it.
    """
    description = summary.description[:SUMMARY_SHOWN]
    passage = "" if summary.passage in description else summary.passage
    unusual = {
        "passage": passage,
        "description": "" if passage else description,
        "platform": summary.platform,
        "deprecated": summary.deprecated,
        "unsure": summary.is_unsure,
    }
    values = {"urn": summary.urn, "type": summary.entity_type, "name": summary.name}
    return values | {key: value for key, value in unusual.items() if value}
