"""The apply_knowledge tool: review insights, apply them to the catalog, and roll changesets back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NotRequired

from typing_extensions import TypedDict

from foundation.operations.errors import Conflict, DomainError, Forbidden, NotFound
from foundation.people.caller import Caller
from foundation.tools.budget import fit_items
from foundation.tools.declaration import Hints, Tool
from knowledge import operations, responses
from knowledge.catalog.current import get_catalog
from knowledge.catalog.metadata_files import as_proposals
from knowledge.changesets import approvals, risk, rollback
from knowledge.changesets.apply import Applied, apply, get_changeset, resume
from knowledge.changesets.apply import preview as preview_changes
from knowledge.insights import queries
from knowledge.insights.lifecycle import chain_effects, edit, require_curator
from knowledge.insights.seen import version_of, versions_of
from knowledge.mcp_tools import questions
from knowledge.models import DecisionKind, Insight, InsightState
from knowledge.responses import ChangeResponse, ChangesetResponse, InsightResponse, UsageResponse
from knowledge.review import clarifications, decisions, evidence
from memories.extensions import checks_of

MAX_WITHOUT_ENTITY = 20  # maximum number of insights without an entity that the overview of the queue contains


class RefusedResponse(TypedDict):
    id: str
    error: str
    code: str


class QueueResponse(TypedDict):
    total_pending: int
    oldest_at: str | None
    by_entity: list[dict[str, Any]]
    more_entities: bool
    by_category: dict[str, int]
    by_confidence: dict[str, int]
    without_entity: NotRequired[int]  # number of waiting insights that name no entity; `review` can't reach them
    insights: NotRequired[list[InsightResponse]]  # the oldest of them


class EntityReviewResponse(TypedDict):
    entity_urn: str
    current_metadata: dict[str, Any] | None
    insights: list[InsightResponse]
    total: int
    omitted: int
    note: NotRequired[str]


class DecidedResponse(TypedDict):
    updated: int
    total: int
    errors: list[RefusedResponse]
    note: NotRequired[str]


class EditedResponse(TypedDict):
    updated: int
    total: int
    insights: list[InsightResponse]


class SynthesisResponse(TypedDict):
    entity_urn: str
    proposed_changes: list[dict[str, Any]]
    note: str


class PreviewResponse(TypedDict):
    confirmation_required: bool
    dry_run: bool
    entity_urn: NotRequired[str]
    changes_count: NotRequired[int]
    preview: list[ChangeResponse]
    replaces: NotRequired[dict[str, str]]
    chains: NotRequired[list[str]]
    removed_in_use: NotRequired[list[UsageResponse]]
    needs_second_approval: NotRequired[list[str]]
    message: str


class DeclinedResponse(TypedDict):
    changeset_id: str
    state: str
    message: str


class AppliedResponse(TypedDict):
    changeset_id: str
    entity_urn: str
    state: str
    changes_applied: int
    changes_unchanged: int
    changes: list[ChangeResponse]
    insights_marked_applied: int
    created_ids: list[str]
    message: str
    note: NotRequired[str]
    resulting_state: NotRequired[dict[str, Any] | None]


class RolledBackResponse(TypedDict):
    changeset_id: str
    target_urn: str
    state: str
    reverted_changes: list[ChangeResponse]
    skipped_changes: list[ChangeResponse]
    kept_changes: list[ChangeResponse]
    insights_rolled_back: int
    rolled_back_by: str
    removed_in_use: NotRequired[list[UsageResponse]]
    message: str


class ChangesetsResponse(TypedDict):
    changesets: list[ChangesetResponse]
    total: int
    omitted: NotRequired[int]
    limit: NotRequired[int]
    offset: NotRequired[int]


class ExportResponse(TypedDict):
    changeset_id: str
    proposals: list[dict[str, Any]]


def _bulk_review(caller: Caller, operation: operations.CountQueue) -> QueueResponse:
    # overview() returns exactly these keys
    response: QueueResponse = {**queries.overview(caller)}  # type: ignore[typeddict-item]
    rows = queries.waiting(caller).filter(record__entity_urns=[])
    if count := rows.count():
        insights = list(rows[:MAX_WITHOUT_ENTITY])
        versions = versions_of(insights)
        items: list[Any] = [{**responses.insight_response(row), "seen": versions[row.pk]} for row in insights]
        response["without_entity"] = count
        response["insights"], _ = fit_items(items)
    return response


def _review(caller: Caller, operation: operations.ReviewEntity) -> EntityReviewResponse:
    rows: Any = queries.about(caller, operation.entity_urn)
    current: dict[str, Any] | None = None
    note = ""
    try:
        current = evidence.entity_evidence(get_catalog(), operation.entity_urn)
    except DomainError as error:
        note = error.message
    insights = list(rows[: operation.limit])
    versions = versions_of(insights)
    checks = checks_of([insight.pk for insight in insights])
    with_evidence: list[Any] = [
        {
            **responses.insight_response(insight),
            "seen": versions[insight.pk],
            "evidence": evidence.evidence_for(insight),
            **({"check": checks[insight.pk].text} if insight.pk in checks else {}),
        }
        for insight in insights
    ]
    shown_insights, omitted = fit_items(with_evidence)
    response: EntityReviewResponse = {
        "entity_urn": operation.entity_urn,
        "current_metadata": current,
        "insights": shown_insights,
        "total": rows.count(),
        "omitted": omitted,
    }
    if note:
        response["note"] = note
    return response


OVERTURNED = {"rejected": "approved", "approved": "rejected"}  # what the overturned decision was, by the new one


def _decide_each(caller: Caller, operation: operations.Decide, decide: Callable[..., Insight]) -> DecidedResponse:
    """Call `decide` for each insight. The response lists refused decisions in `errors`."""
    updated = 0
    notes = []
    errors: list[RefusedResponse] = []
    insight_ids = operation.insight_ids
    for insight_id in dict.fromkeys(insight_ids):
        seen = operation.seen_of(insight_id)
        try:
            insight = decide(caller, insight_id=insight_id, seen=seen, override=operation.override)
            last = insight.decisions.last()
            updated += 1
            if last is not None and last.overturns:
                before = OVERTURNED.get(last.kind, "decided")
                notes.append(f"{insight_id} was {before} by {last.overturns}, who is notified")
            if last is not None and last.kind == DecisionKind.EDIT_REJECTED:
                notes.append(f"the edit of {insight_id} was rejected, and its approved version stays in effect")
        except DomainError as error:
            errors.append(RefusedResponse(id=insight_id, error=error.message, code=error.code))
    if not updated and len(errors) == 1:  # the decision on the only insight was refused, so the call itself fails
        raise _error_of(errors[0])
    response: DecidedResponse = {"updated": updated, "total": len(insight_ids), "errors": errors}
    if notes:
        response["note"] = "; ".join(notes)
    return response


def _error_of(refused: RefusedResponse) -> DomainError:
    classes: dict[str, type[DomainError]] = {"not_found": NotFound, "forbidden": Forbidden, "conflict": Conflict}
    error_class = classes.get(refused["code"], DomainError)
    error = error_class(refused["error"])
    error.code = refused["code"]
    return error


def _approve(caller: Caller, operation: operations.Approve) -> DecidedResponse:
    return _decide_each(caller, operation, partial(decisions.approve, notes=operation.review_notes))


def _reject(caller: Caller, operation: operations.Reject) -> DecidedResponse:
    return _decide_each(caller, operation, partial(decisions.reject, notes=operation.review_notes))


def _need_more(caller: Caller, operation: operations.NeedMore) -> DecidedResponse:
    return _decide_each(caller, operation, partial(clarifications.request_changes, notes=operation.review_notes))


def _undo(caller: Caller, operation: operations.UndoReview) -> DecidedResponse:
    return _decide_each(caller, operation, decisions.undo_review)


def _edit(caller: Caller, operation: operations.EditInsight) -> EditedResponse:
    insight = edit(caller, operation.as_edit())
    return {**_edited(insight), "updated": int(insight.is_edited)}


def _edit_and_approve(caller: Caller, operation: operations.EditAndApprove) -> EditedResponse:
    return _edited(decisions.edit_and_approve(caller, operation))


def _edited(insight: Insight) -> EditedResponse:
    response: InsightResponse = {**responses.insight_response(insight), "seen": version_of(insight)}
    return {"updated": 1, "total": 1, "insights": [response]}


def _synthesize(caller: Caller, operation: operations.Synthesize) -> SynthesisResponse:
    selection = [queries.insight(caller, insight_id) for insight_id in operation.insight_ids]
    if not selection and operation.entity_urn:
        selection = list(queries.about(caller, operation.entity_urn)[: operations.AT_ONCE])
    approved = [insight for insight in selection if insight.state == InsightState.APPROVED and not insight.changeset_id]
    urn = operation.entity_urn or ""
    proposed, note = queries.synthesize(caller, urn, approved)
    return {"entity_urn": urn, "proposed_changes": proposed, "note": note}


def _needs_confirmation(operation: operations.Apply | operations.RollBack) -> bool:
    return operation.dry_run or not questions.is_confirmed(operation)


def _apply(caller: Caller, operation: operations.Apply) -> AppliedResponse | PreviewResponse:
    if not _needs_confirmation(operation):
        return _applied(apply(caller, operation))
    preview = preview_changes(caller, operation)
    response: PreviewResponse = {
        "confirmation_required": not operation.dry_run,
        "dry_run": operation.dry_run,
        "entity_urn": preview.entity_urn,
        "changes_count": len(operation.changes),
        "preview": [responses.planned_response(planned, preview.entities) for planned in preview.planned],
        "message": UNCHANGED if all(planned.is_noop for planned in preview.planned) else PREVIEWED,
    }
    if operation.dry_run and response["message"] == PREVIEWED:
        response["message"] = f"{PREVIEWED}, without dry_run"
    if preview.replaces:
        response["replaces"] = preview.replaces
    if preview.risks:
        response["needs_second_approval"] = risk.in_words(preview.risks)
    return response


PREVIEWED = "nothing was written: show the person this preview, and repeat it with confirm=true if they agree"
UNCHANGED = "nothing was written, and nothing would be: the catalog has these values already"
MESSAGES = {
    "applied": "applied",
    "partial": "some changes were not written: action resume continues, action rollback undoes the written changes",
    "failed": "nothing was written; the insights stay approved and can be applied again",
    "waiting": "nothing was written yet: another curator must approve it, with action approve_changeset",
}


def _applied(applied: Applied) -> AppliedResponse:
    landed = [change for change in applied.changes if change.outcome == "landed"]
    changeset = applied.changeset
    response: AppliedResponse = {
        "changeset_id": changeset.pk.hex,
        "entity_urn": changeset.entity_urn,
        "state": changeset.state,
        "changes_applied": len(landed),
        "changes_unchanged": sum(change.outcome == "noop" for change in applied.changes),
        "changes": [responses.change_response(change) for change in applied.changes],
        "insights_marked_applied": applied.insights_marked,
        "created_ids": sorted({change.urn for change in landed if change.creates}),
        "message": MESSAGES.get(changeset.state, changeset.state),
    }
    if note := "; ".join(filter(None, [changeset.error, *applied.notes])):
        response["note"] = note
    if changeset.entity_urn and changeset.state == "applied":
        try:
            response["resulting_state"] = evidence.entity_evidence(get_catalog(), changeset.entity_urn)
        except DomainError as error:
            response["note"] = f"applied; reading the result failed: {error.message}"
    return response


def _resume(caller: Caller, operation: operations.ResumeChangeset) -> AppliedResponse:
    return _applied(resume(caller, changeset_id=operation.changeset_id))


def _approve_changeset(caller: Caller, operation: operations.ApproveChangeset) -> AppliedResponse:
    changeset_id = operation.changeset_id
    notes = operation.review_notes
    return _applied(approvals.approve(caller, changeset_id=changeset_id, notes=notes))


def _decline_changeset(caller: Caller, operation: operations.DeclineChangeset) -> DeclinedResponse:
    changeset = approvals.decline(caller, changeset_id=operation.changeset_id, notes=operation.review_notes)
    message = "nothing was written; its insights stay approved and can be applied again"
    return {"changeset_id": changeset.pk.hex, "state": changeset.state, "message": message}


def _rollback(caller: Caller, operation: operations.RollBack) -> RolledBackResponse | PreviewResponse:
    if _needs_confirmation(operation):
        return _rollback_preview(caller, operation)
    result = rollback.roll_back(caller, changeset_id=operation.changeset_id, skip_conflicts=operation.skip_conflicts)
    response: RolledBackResponse = {
        "changeset_id": result.changeset.pk.hex,
        "target_urn": result.changeset.entity_urn,
        "state": result.changeset.state,
        "reverted_changes": [responses.change_response(change) for change in result.reverted],
        "skipped_changes": [responses.change_response(change) for change in [*result.skipped, *result.conflicts]],
        "kept_changes": [_kept_response(undo) for undo in result.kept],
        "insights_rolled_back": result.insights_returned,
        "rolled_back_by": result.changeset.rolled_back_by,
        "message": "; ".join(["rolled back", *map(str, result.used), "its insights wait for review again"]),
    }
    if result.used:
        response["removed_in_use"] = [responses.usage_response(usage) for usage in result.used]
    return response


def _rollback_preview(caller: Caller, operation: operations.RollBack) -> PreviewResponse:
    preview = rollback.roll_back_preview(caller, changeset_id=operation.changeset_id)
    changes = [_undo_response(undo) for undo in preview.undos]
    steps = "nothing was rolled back: show the person this preview, and repeat it with confirm=true if they agree"
    without_dry_run = ", without dry_run" if operation.dry_run else ""
    response: PreviewResponse = {
        "confirmation_required": not operation.dry_run,
        "dry_run": operation.dry_run,
        "preview": changes,
        "message": "; ".join(["nothing was written", *map(str, preview.used), steps]) + without_dry_run,
    }
    if preview.used:
        response["removed_in_use"] = [responses.usage_response(usage) for usage in preview.used]
    if effects := chain_effects(caller, preview.changeset):
        response["chains"] = [str(effect) for effect in effects]
    return response


def _undo_response(undo: rollback.Undo) -> ChangeResponse:
    if undo.is_kept:
        return {**_kept_response(undo), "outcome": "would be kept"}
    outcome = "would be reverted" if undo.is_ours else "changed by others since"
    if undo.is_erased:
        outcome = "can't be reverted: its earlier value was erased"
    return {**responses.change_response(undo.change), "outcome": outcome}


def _kept_response(undo: rollback.Undo) -> ChangeResponse:
    return {**responses.change_response(undo.change), "relied_on_by": undo.relied_on_by}


def _list_changesets(caller: Caller, operation: operations.ListChangesets) -> ChangesetsResponse:
    if operation.changeset_id:
        changeset = get_changeset(caller, operation.changeset_id)
        return {"changesets": [responses.changeset_response(changeset, list(changeset.changes.all()))], "total": 1}
    rows = queries.changesets(caller, operation.entity_urn or "")
    page = [responses.changeset_response(row) for row in rows[operation.offset : operation.offset + operation.limit]]
    shown_changesets, omitted = fit_items(page)
    return {
        "changesets": shown_changesets,
        "total": rows.count(),
        "omitted": omitted,
        "limit": operation.limit,
        "offset": operation.offset,
    }


def _export(caller: Caller, operation: operations.ExportChangeset) -> ExportResponse:
    changeset = get_changeset(caller, operation.changeset_id)
    landed = changeset.changes.filter(outcome="landed")
    return {"changeset_id": changeset.pk.hex, "proposals": as_proposals(landed)}


apply_knowledge = Tool(
    name="apply_knowledge",
    toolset="knowledge",
    title="Curate and apply knowledge",
    description="For curators: review captured insights, write approved ones to the data catalog, and undo that.\n\n"
    "Usual order: bulk_review, review, approve or reject, synthesize, apply with dry_run, apply with confirm. Without "
    "an action, returns the arguments of each.",
    selector="action",
    choices={
        "bulk_review": _bulk_review,
        "review": _review,
        "approve": _approve,
        "reject": _reject,
        "needs_more": _need_more,
        "edit": _edit,
        "edit_and_approve": _edit_and_approve,
        "undo_review": _undo,
        "synthesize": _synthesize,
        "apply": _apply,
        "resume": _resume,
        "approve_changeset": _approve_changeset,
        "decline_changeset": _decline_changeset,
        "rollback": _rollback,
        "list_changesets": _list_changesets,
        "export_changeset": _export,
    },
    confirms={"apply": questions.ask_apply, "rollback": questions.ask_rollback},
    hints=Hints(destructive=True),
    reading=("bulk_review", "review", "synthesize", "list_changesets", "export_changeset"),
    repeats_choice=True,
    check_permission=require_curator,
    rare=("seen", "override", "skip_conflicts"),
)
