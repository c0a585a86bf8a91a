"""apply_knowledge: what curators decide, apply and take back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from django.conf import settings
from pydantic import Field
from typing_extensions import TypedDict

from knowledge import catalog as catalogs
from knowledge import decisions, evidence, insights, queries, shapes
from knowledge.catalog.files import as_proposals
from knowledge.changes import changesets, rollback
from knowledge.changes.change_types import CHANGE_TYPES
from knowledge.models import Insight, InsightState
from knowledge.shapes import ChangesetShape, ChangeShape, InsightShape
from memories.access import Caller
from memories.contract.budget import within_budget
from memories.contract.errors import DomainError, Forbidden, Invalid, NotFound, check_choice, check_count
from memories.contract.toolset import tool
from memories.validation import check_page, clean_urn

LISTED_MAX = 100

ACTIONS = {
    "bulk_review": "the queue in numbers",
    "review": "entity_urn: what the catalog says of it, and every insight about it with the evidence",
    "approve": "insight_ids; optional review_notes",
    "reject": "insight_ids; optional review_notes",
    "edit": "insight_ids (one), and content or changes (its suggested actions): mend a pending insight",
    "edit_and_approve": "the same, and approve it",
    "undo_review": "insight_ids: take your decisions back, until they are acted on",
    "synthesize": "entity_urn or insight_ids: what approved insights would change",
    "apply": "insight_ids (approved), changes, entity_urn; confirm=true, or dry_run=true",
    "resume": "changeset_id: go on with a partial changeset",
    "rollback": "changeset_id; confirm=true, or dry_run=true; optional skip_conflicts",
    "list_changesets": "optional entity_urn, changeset_id (one, whole), limit, offset",
    "export_changeset": "changeset_id: its writes as metadata change proposals",
}


TAKES: dict[str, frozenset[str]] = {
    "bulk_review": frozenset(),
    "review": frozenset({"entity_urn", "limit"}),
    "approve": frozenset({"insight_ids", "review_notes"}),
    "reject": frozenset({"insight_ids", "review_notes"}),
    "edit": frozenset({"insight_ids", "content", "changes"}),
    "edit_and_approve": frozenset({"insight_ids", "content", "changes", "review_notes"}),
    "undo_review": frozenset({"insight_ids"}),
    "synthesize": frozenset({"entity_urn", "insight_ids"}),
    "apply": frozenset({"insight_ids", "changes", "entity_urn", "confirm", "dry_run"}),
    "resume": frozenset({"changeset_id"}),
    "rollback": frozenset({"changeset_id", "confirm", "dry_run", "skip_conflicts"}),
    "list_changesets": frozenset({"entity_urn", "changeset_id", "limit", "offset"}),
    "export_changeset": frozenset({"changeset_id"}),
}


class RefusedShape(TypedDict):
    id: str
    error: str
    code: str


class ApplyShape(TypedDict, total=False):
    action: str
    message: str
    note: str
    actions: dict[str, str]
    total_pending: int
    oldest_at: str | None
    by_entity: list[dict[str, Any]]
    more_entities: bool
    by_category: dict[str, int]
    by_confidence: dict[str, int]
    current_metadata: dict[str, Any] | None
    insights: list[InsightShape]
    omitted: int
    updated: int
    total: int
    errors: list[RefusedShape]
    proposed_changes: list[dict[str, Any]]
    confirmation_required: bool
    dry_run: bool
    entity_urn: str
    target_urn: str
    changes_count: int
    preview: list[ChangeShape]
    changeset_id: str
    state: str
    changes_applied: int
    changes_unchanged: int
    changes: list[ChangeShape]
    insights_marked_applied: int
    resulting_state: dict[str, Any] | None
    created_ids: list[str]
    reverted_changes: list[ChangeShape]
    skipped_changes: list[ChangeShape]
    insights_rolled_back: int
    rolled_back_by: str
    changesets: list[ChangesetShape]
    limit: int
    offset: int
    proposals: list[dict[str, Any]]


@dataclass(frozen=True)
class Call:
    """The arguments of apply_knowledge."""

    caller: Caller
    entity_urn: str
    changeset_id: str
    insight_ids: list[str]
    changes: list[dict[str, Any]]
    content: str
    confirm: bool
    dry_run: bool
    skip_conflicts: bool
    review_notes: str
    limit: int
    offset: int


@tool(toolset="knowledge", title="Curate and apply knowledge", destructive=True, command="action", takes=TAKES)
def apply_knowledge(
    caller: Caller,
    action: Annotated[str, Field(description="One of: " + ", ".join(ACTIONS) + ". Without one: what each takes.")] = "",
    entity_urn: str = "",
    changeset_id: str = "",
    insight_ids: Annotated[
        list[str] | None, Field(description="At most 50.", json_schema_extra={"maxItems": 50})
    ] = None,
    changes: Annotated[
        list[dict[str, Any]] | None,
        Field(
            description="At most 20 of {change_type, target, detail}; change_type one of: " + ", ".join(CHANGE_TYPES),
            json_schema_extra={"maxItems": 20},
        ),
    ] = None,
    content: Annotated[str, Field(description="edit: the mended text.", json_schema_extra={"maxLength": 4000})] = "",
    confirm: bool = False,
    dry_run: bool = False,
    skip_conflicts: bool = False,
    review_notes: Annotated[str, Field(json_schema_extra={"maxLength": 1000})] = "",
    limit: Annotated[int, Field(description="1 to 100", json_schema_extra={"maximum": LISTED_MAX})] = 20,
    offset: int = 0,
) -> ApplyShape:
    """For curators: review captured insights, apply approved ones to the data catalog, and take that back.

    review → approve → synthesize → apply with dry_run, then with confirm → rollback if need be.
    """
    if not action:
        return {"actions": ACTIONS, "message": "name an action"}
    check_choice("action", action, ACTIONS)
    insights.require_curator(caller)
    limit = check_page(limit, offset, LISTED_MAX)
    call = Call(
        caller, entity_urn, changeset_id, insight_ids or [], changes or [], content, confirm, dry_run,
        skip_conflicts, review_notes, limit, offset,
    )  # fmt: skip
    return {"action": action, **HANDLERS[action](call)}


def _bulk_review(call: Call) -> ApplyShape:
    shape: ApplyShape = {**queries.overview(call.caller)}  # type: ignore[typeddict-item]  # built to be one
    return shape


def _review(call: Call) -> ApplyShape:
    rows: Any = queries.about(call.caller, clean_urn(call.entity_urn, "entity_urn"))
    current: dict[str, Any] | None = None
    shape: ApplyShape = {"entity_urn": call.entity_urn}
    try:
        current = evidence.of_entity(catalogs.current(), call.entity_urn)
    except DomainError as error:
        shape["note"] = error.message
    found = [{**shapes.insight_shape(one), "evidence": evidence.beside(one)} for one in rows[: call.limit]]
    kept, omitted = within_budget(found)
    shape |= {"current_metadata": current, "insights": kept, "total": rows.count(), "omitted": omitted}  # type: ignore[typeddict-item]
    return shape


def _each(call: Call, act: Callable[[str], Insight]) -> ApplyShape:
    """One decision an insight; what is refused is said, the rest is done."""
    check_count("insight_ids", list(call.insight_ids), insights.AT_ONCE)
    if not call.insight_ids:
        raise Invalid("is empty", field="insight_ids", allowed=f"1 to {insights.AT_ONCE} ids")
    updated, errors, overturns = 0, [], []
    for insight_id in dict.fromkeys(call.insight_ids):
        try:
            last = act(insight_id).decisions.last()
            updated += 1
            if last is not None and last.overturns:
                overturns.append(f"{insight_id} had been approved by {last.overturns}, who is told")
        except DomainError as error:
            errors.append(RefusedShape(id=insight_id, error=error.message, code=error.code))
    if not updated and len(errors) == 1:
        raise _same(errors[0])
    shape: ApplyShape = {"updated": updated, "total": len(call.insight_ids), "errors": errors}
    if overturns:
        shape["note"] = "; ".join(overturns)
    return shape


def _same(refused: RefusedShape) -> DomainError:
    """A single refusal is the call's."""
    kinds = {"not_found": NotFound, "forbidden": Forbidden}
    kind: type[DomainError] = kinds.get(refused["code"], DomainError)
    error = kind(refused["error"])
    error.code = refused["code"]
    return error


def _approve(call: Call) -> ApplyShape:
    return _each(call, lambda one: decisions.approve(caller=call.caller, insight_id=one, notes=call.review_notes))


def _reject(call: Call) -> ApplyShape:
    return _each(call, lambda one: decisions.reject(caller=call.caller, insight_id=one, notes=call.review_notes))


def _undo(call: Call) -> ApplyShape:
    return _each(call, lambda one: decisions.undo_review(caller=call.caller, insight_id=one))


def _edit(call: Call) -> ApplyShape:
    if len(call.insight_ids) != 1:
        raise Invalid(f"has {len(call.insight_ids)} entries", field="insight_ids", allowed="exactly one")
    actions = [_as_action(change) for change in call.changes] or None
    edited = insights.edit(
        caller=call.caller,
        insight_id=call.insight_ids[0],
        content=call.content or None,
        suggested_actions=actions,
    )
    return {"updated": 1, "total": 1, "insights": [shapes.insight_shape(edited)]}


def _as_action(change: dict[str, Any]) -> dict[str, Any]:
    return {("action_type" if name == "change_type" else name): value for name, value in change.items()}


def _edit_and_approve(call: Call) -> ApplyShape:
    edited = _edit(call)
    decisions.approve(caller=call.caller, insight_id=call.insight_ids[0], notes=call.review_notes)
    edited["insights"] = [shapes.insight_shape(queries.insight(call.caller, call.insight_ids[0]))]
    return edited


def _synthesize(call: Call) -> ApplyShape:
    if not call.entity_urn and not call.insight_ids:
        raise Invalid("is missing", field="entity_urn", allowed="an entity's URN, or insight_ids")
    chosen = [queries.insight(call.caller, one) for one in call.insight_ids]
    if not chosen:
        chosen = list(queries.about(call.caller, clean_urn(call.entity_urn, "entity_urn"))[: insights.AT_ONCE])
    approved = [one for one in chosen if one.state == InsightState.APPROVED and not one.changeset_id]
    proposed, note = queries.synthesize(call.caller, call.entity_urn, approved)
    return {"entity_urn": call.entity_urn, "proposed_changes": proposed, "note": note}


def _apply(call: Call) -> ApplyShape:
    given: dict[str, Any] = {
        "caller": call.caller,
        "insight_ids": call.insight_ids,
        "changes": call.changes,
        "entity_urn": call.entity_urn,
    }
    if call.dry_run or (settings.APPLY_REQUIRE_CONFIRMATION and not call.confirm):
        preview = changesets.preview(**given)
        planned = [shapes.planned_shape(one, preview.known) for one in preview.planned]
        return {
            "confirmation_required": not call.dry_run,
            "dry_run": call.dry_run,
            "entity_urn": preview.entity_urn,
            "changes_count": len(call.changes),
            "preview": planned,
            "message": "nothing was written; repeat with confirm=true to write this",
        }
    return _applied(changesets.apply(**given))


def _applied(done: changesets.Applied) -> ApplyShape:
    landed = [change for change in done.changes if change.outcome == "landed"]
    changeset = done.changeset
    shape: ApplyShape = {
        "changeset_id": changeset.pk.hex,
        "entity_urn": changeset.entity_urn,
        "state": changeset.state,
        "changes_applied": len(landed),
        "changes_unchanged": sum(change.outcome == "noop" for change in done.changes),
        "changes": [shapes.change_shape(change) for change in done.changes],
        "insights_marked_applied": done.insights_marked,
        "created_ids": sorted({change.urn for change in landed if change.creates}),
        "message": MESSAGES.get(changeset.state, changeset.state),
    }
    if changeset.error:
        shape["note"] = changeset.error
    if changeset.entity_urn and changeset.state == "applied":
        try:
            shape["resulting_state"] = evidence.of_entity(catalogs.current(), changeset.entity_urn)
        except DomainError as error:
            shape["note"] = f"applied; reading the result failed: {error.message}"
    return shape


MESSAGES = {
    "applied": "applied",
    "partial": "not all of it landed: resume goes on, rollback takes it back",
    "failed": "nothing was written; the insights are approved and free",
}


def _resume(call: Call) -> ApplyShape:
    return _applied(changesets.resume(caller=call.caller, changeset_id=call.changeset_id))


def _rollback(call: Call) -> ApplyShape:
    if call.dry_run or (settings.APPLY_REQUIRE_CONFIRMATION and not call.confirm):
        shown = rollback.roll_back_preview(caller=call.caller, changeset_id=call.changeset_id)
        changes: list[ChangeShape] = [
            {**shapes.change_shape(change), "outcome": "would be reverted" if ours else "changed by others since"}
            for change, ours in shown
        ]
        return {
            "confirmation_required": not call.dry_run,
            "dry_run": call.dry_run,
            "preview": changes,
            "message": "nothing was written; repeat with confirm=true to take this back",
        }
    done = rollback.roll_back(caller=call.caller, changeset_id=call.changeset_id, skip_conflicts=call.skip_conflicts)
    return {
        "changeset_id": done.changeset.pk.hex,
        "target_urn": done.changeset.entity_urn,
        "state": done.changeset.state,
        "reverted_changes": [shapes.change_shape(change) for change in done.reverted],
        "skipped_changes": [shapes.change_shape(change) for change in [*done.skipped, *done.conflicts]],
        "insights_rolled_back": done.insights_returned,
        "rolled_back_by": done.changeset.rolled_back_by,
        "message": "rolled back; its insights wait for review again",
    }


def _list_changesets(call: Call) -> ApplyShape:
    if call.changeset_id:
        one = changesets.find(call.caller, call.changeset_id)
        return {"changesets": [shapes.changeset_shape(one, list(one.changes.all()))], "total": 1}
    rows = queries.changesets(call.caller, call.entity_urn)
    shown = [shapes.changeset_shape(row) for row in rows[call.offset : call.offset + call.limit]]
    kept, omitted = within_budget(shown)
    return {
        "changesets": kept,
        "total": rows.count(),
        "omitted": omitted,
        "limit": call.limit,
        "offset": call.offset,
    }


def _export(call: Call) -> ApplyShape:
    one = changesets.find(call.caller, call.changeset_id)
    landed = one.changes.filter(outcome="landed")
    return {"changeset_id": one.pk.hex, "proposals": as_proposals(landed)}


HANDLERS: dict[str, Callable[[Call], ApplyShape]] = {
    "bulk_review": _bulk_review,
    "review": _review,
    "approve": _approve,
    "reject": _reject,
    "edit": _edit,
    "edit_and_approve": _edit_and_approve,
    "undo_review": _undo,
    "synthesize": _synthesize,
    "apply": _apply,
    "resume": _resume,
    "rollback": _rollback,
    "list_changesets": _list_changesets,
    "export_changeset": _export,
}
