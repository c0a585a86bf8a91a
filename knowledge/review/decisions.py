"""Decisions on insights: approval, rejection, undo, appeal, and the review of edits to approved insights.

Every decision is recorded. `seen` is the token of insights/seen.py for the state that the curator saw: if the insight
has changed since, the decision is refused, unless `override` is set. Curators whose decisions are overturned are
notified.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Conflict, Forbidden
from foundation.operations.fields import Reason
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from knowledge.insights import assignment, events
from knowledge.insights.lifecycle import (
    back_to_pending,
    locked_insight,
    require_curator,
    require_curator_of,
    save_edit,
)
from knowledge.insights.seen import overridden, require_own_or_seen, require_unchanged
from knowledge.insights.waiting_edits import (
    IN_FORCE,
    being_applied,
    drop_edit,
    edited_value,
    keep_edit,
    make_edit,
    present_value,
    require_no_edit,
)
from knowledge.models import Decision, DecisionKind, Insight, InsightState
from knowledge.operations import Appeal, EditAndApprove
from memories import services
from memories.models import IN_USE, MemoryRecord, Status, Visibility
from memories.models.record import EDITED_BY
from memories.validity.rules import check_restored, require_not_ended
from memories.writing.correction_chains import reference
from memories.writing.exact_duplicates import find_duplicate
from memories.writing.revision import revised
from memories.writing.undo import restore_status

MOMENTS = ("question_at", "snoozed_until")  # columns of a step's `before` that hold times, in ISO format


def approve(
    caller: Caller, *, insight_id: UUID | str, notes: str = "", seen: str = "", override: bool = False
) -> Insight:
    """Approve an insight, or only its pending edit if there is one.

    The memory of an approved insight gets the visibility that its owner asked for. A rejected insight can be approved
    if the curator saw the rejection or overrides it.
    """
    with under_review(caller, insight_id, notes, seen, override) as insight:
        if insight.pending_edit:
            return _approve_edit(caller, insight, notes)
        require_not_ended(insight.record, "insight_id")
        rejecter = ""
        if insight.state == InsightState.REJECTED and (seen or override):
            rejecter = reopen(caller, insight)
        _require_state(insight, {InsightState.PENDING})
        _decide(caller, insight, InsightState.APPROVED, notes, rejecter, seen)
        with revised(caller, insight.record, "approve", notes):
            insight.record.visibility = insight.wanted_visibility
    return insight


def edit_and_approve(caller: Caller, operation: EditAndApprove) -> Insight:
    """Edit a pending insight and approve it. If the approval is refused, the edit is not saved either."""
    with transaction.atomic():
        edited = save_edit(caller, operation.as_edit())
        insight = approve(caller, insight_id=edited.pk, notes=operation.review_notes)
    services.index_now(caller, insight.record)
    return insight


def reject(
    caller: Caller, *, insight_id: UUID | str, notes: str = "", seen: str = "", override: bool = False
) -> Insight:
    """Reject an insight, or only its pending edit if there is one.

    The memory of a rejected insight becomes private and is archived, so that recall no longer finds it. Raises Conflict
    if another curator has approved the insight, unless the caller saw the approval or overrides it.
    """
    with under_review(caller, insight_id, notes, seen, override) as insight:
        if insight.pending_edit:
            return _reject_edit(caller, insight, notes)
        _require_state(insight, {InsightState.PENDING, InsightState.APPROVED})
        if not (seen or override):
            _require_no_rejected_edit(insight)
        approver = insight.reviewed_by if insight.state == InsightState.APPROVED else ""
        require_own_or_seen(caller, insight, approver, seen=seen, override=override)
        _decide(caller, insight, InsightState.REJECTED, notes, approver, seen)
        with revised(caller, insight.record, "reject", notes):
            insight.record.status = Status.ARCHIVED
            insight.record.visibility = Visibility.PRIVATE
    return insight


def _require_no_rejected_edit(insight: Insight) -> None:
    """Raise Conflict if the last decision rejected an edit. A repeated call must not reject the insight, too."""
    last = insight.decisions.last()
    if last is not None and last.kind == DecisionKind.EDIT_REJECTED:
        raise Conflict(
            gettext("had its edit rejected by %(person)s, and the approved version stays in effect")
            % {"person": last.by},
            field="insight_id",
            allowed=gettext("`seen` of the review, to decide about the approved version"),
        )


def undo_review(
    caller: Caller,
    *,
    insight_id: UUID | str,
    seen: str = "",
    override: bool = False,
    until: datetime | None = None,
) -> Insight:
    """Undo the last decision: on the insight or on its edit, a question, a hand-over or a snooze.

    With `until`, it must not be later than that. The approval of an insight can't be undone once a changeset applies
    it, nor a question that was answered. Raises Forbidden unless the caller made the decision or is an admin, and
    Conflict while an edit waits. Every curator of the persona may end a snooze.
    """
    require_curator(caller)
    with transaction.atomic():
        insight = locked_insight(caller, insight_id)
        require_curator_of(caller, insight.record)
        require_unchanged(insight, seen, override)
        last = Decision.objects.filter(insight=insight).order_by("-at", "-pk").first()
        require_no_edit(insight)
        if until is not None and last is not None and last.at > until:
            raise Conflict(gettext("was decided about again since then"), field="insight_id")
        if last is not None and (last.kind == DecisionKind.EDIT_APPROVED or _is_rejected_edit(last)):
            require_own_or_seen(caller, insight, last.by if caller.is_admin else "", seen=seen, override=override)
            return _undo_edit(caller, insight, last)
        if insight.state == InsightState.PENDING:
            return _undo_step(caller, insight, last, seen=seen, override=override)
        if insight.state not in (InsightState.APPROVED, InsightState.REJECTED):
            raise Conflict(
                gettext("is %(state)s: there is no decision to undo") % {"state": insight.state}, field="insight_id"
            )
        if insight.changeset_id:
            raise Conflict(being_applied(insight), field="insight_id")
        if insight.reviewed_by != caller.email and not caller.is_admin:
            raise Forbidden(_not_yours(insight.reviewed_by), field="insight_id")
        require_own_or_seen(caller, insight, insight.reviewed_by, seen=seen, override=override)
        if insight.state == InsightState.APPROVED and insight.record.status == Status.ARCHIVED:
            raise Conflict(
                gettext("belongs to a memory that is archived: its owner can restore it"), field="insight_id"
            )
        if insight.state == InsightState.REJECTED:
            _require_no_duplicate(caller, insight)
        _take_back(caller, insight, insight.reviewed_by)
        back_to_pending(caller, insight, "undo_review")
    return insight


def _is_rejected_edit(decision: Decision) -> bool:
    return decision.kind == DecisionKind.EDIT_REJECTED and bool(decision.before)  # earlier versions stored no edit


def _undo_step(caller: Caller, insight: Insight, last: Decision | None, *, seen: str, override: bool) -> Insight:
    """Undo a question, a hand-over or a snooze: restore the values that the pending insight had before it."""
    if last is not None and last.kind in (DecisionKind.NEEDS_MORE, DecisionKind.HANDED_OVER) and last.before:
        if last.by != caller.email and not caller.is_admin:
            raise Forbidden(_not_yours(last.by), field="insight_id")
        require_own_or_seen(caller, insight, last.by, seen=seen, override=override)
        before = last.before
        decided_by = last.by
    elif insight.snoozed_until:
        is_own = last is not None and last.kind == DecisionKind.SNOOZED and last.by == caller.email
        before = last.before if is_own and last else {"snoozed_until": None}
        decided_by = caller.email  # ending a colleague's snooze overturns no decision
    else:
        raise Conflict(gettext("is pending: there is no decision to undo"), field="insight_id")
    for name, value in before.items():
        setattr(insight, name, datetime.fromisoformat(value) if name in MOMENTS and value else value)
    insight.save(update_fields=list(before))
    _take_back(caller, insight, decided_by)
    return insight


def _take_back(caller: Caller, insight: Insight, decided_by: str) -> None:
    overturns = "" if decided_by == caller.email else decided_by
    decision = record_decision(caller, insight, DecisionKind.TAKEN_BACK, "", overturns=overturns)
    events.announce_decision(insight, decision, to=[])


def reopen(caller: Caller, insight: Insight) -> str:
    """Return an approved or rejected insight to review, for another decision by the caller.

    Returns whose decision this overturns: "" if it was the caller's own. Does nothing if the insight is in another
    state, is being applied, or has a pending edit.
    """
    decided_by = insight.reviewed_by
    if insight.state not in (InsightState.APPROVED, InsightState.REJECTED):
        return ""
    if insight.changeset_id or insight.pending_edit:
        return ""
    if insight.state == InsightState.REJECTED:
        _require_no_duplicate(caller, insight)
    back_to_pending(caller, insight, "undo_review")
    return "" if decided_by == caller.email else decided_by


def appeal(caller: Caller, operation: Appeal) -> Insight:
    """Return a rejected insight to review. `operation.notes` is the owner's reason for the appeal."""
    with transaction.atomic():
        insight = locked_insight(caller, operation.insight_id)
        if not caller.can_edit_for(insight.record.created_by):
            raise Forbidden(
                gettext("belongs to another user: only its owner or an admin can appeal"), field="insight_id"
            )
        if insight.state != InsightState.REJECTED:
            raise Conflict(
                gettext("is %(state)s: only rejected insights can be appealed") % {"state": insight.state},
                field="insight_id",
            )
        _require_no_duplicate(caller, insight)
        rejecter = insight.reviewed_by
        decision = record_decision(caller, insight, DecisionKind.APPEALED, operation.notes)
        events.announce_decision(insight, decision, to=[rejecter])
        back_to_pending(caller, insight, "appeal")
    return insight


def overturned_decisions(caller: Caller) -> Any:
    """Return the decisions that overturned a decision of the caller, newest first."""
    visible = Insight.objects.visible_to(caller).values("pk")
    rows = Decision.objects.filter(overturns=caller.email, insight__in=visible).select_related("insight__record")
    return rows.order_by("-at")


# -- edits of approved insights ---------------------------------------------------------------------------------


def defer_correction(record: MemoryRecord) -> str:
    if not Insight.objects.filter(pk=record.pk, state__in=IN_FORCE).exists():
        return ""
    return "the correction waits for a curator; the approved version stays in effect until the correction is applied"


def keep_proposal(record: MemoryRecord, replaces: MemoryRecord) -> None:
    """Create the insight for a correction of an approved memory. The memory must be locked.

    Raises Conflict if the same correction waits already: a bulk action that was interrupted repeats its last row.
    """
    # Proposals of others don't count, because the refusal would tell that they exist.
    own = Insight.objects.filter(record__created_by=record.created_by)
    waiting = own.filter(replaces=replaces, state=InsightState.PENDING, record__content=record.content)
    if waiting.filter(record__status__in=IN_USE).exists():
        raise Conflict(
            gettext("is the same as a correction that waits for a curator, so nothing more is needed"), field="content"
        )
    before = Insight.objects.get(pk=replaces.pk)
    insight = Insight(record=record, wanted_visibility=before.wanted_visibility, replaces=replaces)
    assignment.assign(insight)
    insight.save(force_insert=True)
    events.announce(events.CAPTURED, insight, by=record.edited_by or record.created_by, to=[])


def _approve_edit(caller: Caller, insight: Insight, notes: str) -> Insight:
    editor = insight.edit_by
    before = make_edit(caller, insight, "approve_edit", notes)
    require_not_ended(insight.record, "insight_id")
    decision = record_decision(caller, insight, DecisionKind.EDIT_APPROVED, notes, before=before)
    events.announce_decision(insight, decision, to=[editor])
    return insight


def _reject_edit(caller: Caller, insight: Insight, notes: str) -> Insight:
    # Without the editor's address, which a wipe would not find here.
    before = {"pending_edit": insight.pending_edit, "is_by_owner": insight.edit_by == insight.record.created_by}
    decision = record_decision(caller, insight, DecisionKind.EDIT_REJECTED, notes, before=before)
    events.announce_decision(insight, decision, to=[insight.edit_by])
    drop_edit(insight)
    return insight


def _undo_edit(caller: Caller, insight: Insight, last: Decision) -> Insight:
    """Let an edit that was approved or rejected wait again."""
    if last.by != caller.email and not caller.is_admin:
        raise Forbidden(_not_yours(last.by), field="insight_id")
    record = insight.record
    if last.kind == DecisionKind.EDIT_REJECTED:
        keep_edit(insight, last.before["pending_edit"], record.created_by if last.before["is_by_owner"] else "")
        _take_back(caller, insight, last.by)
        return insight
    edit = {name: present_value(record, name, value) for name, value in last.before.items()}
    if metadata := {key: value for key, value in edit.pop("metadata", {}).items() if key != EDITED_BY}:
        edit["metadata"] = metadata
    keep_edit(insight, edit, record.edited_by or record.created_by)
    with revised(caller, record, "undo_review", ""):
        for name, value in last.before.items():
            setattr(record, name, edited_value(record, name, value))
        check_restored(record, last.before)
        restore_status(record, "approve_edit")
    _take_back(caller, insight, last.by)
    transaction.on_commit(lambda: services.index_now(caller, record))
    return insight


# -- parts ---------------------------------------------------------------------------------------------------


@contextmanager
def under_review(
    caller: Caller, insight_id: UUID | str, notes: str, seen: str = "", override: bool = False
) -> Iterator[Insight]:
    """Lock the insight and yield it, inside the transaction of the decision.

    Raises Forbidden if the caller may not decide on it, ChangedMeanwhile if it is not in the state `seen`, and Conflict
    if its memory was archived or replaced outside of the review.
    """
    require_curator(caller)
    validate(Reason, notes, "review_notes")
    with transaction.atomic():
        insight = locked_insight(caller, insight_id)
        require_curator_of(caller, insight.record)
        authors = {insight.record.created_by, insight.edit_by} if insight.pending_edit else {insight.record.created_by}
        if caller.email in authors and not caller.is_admin:
            raise Forbidden(gettext("is your own: another curator has to review it"), field="insight_id")
        require_unchanged(insight, seen, override)
        if insight.record.status not in IN_USE and insight.state != InsightState.REJECTED:
            raise Conflict(
                gettext("belongs to a memory that is %(status)s") % {"status": insight.record.status},
                field="insight_id",
            )
        yield insight


def _require_state(insight: Insight, allowed: set[InsightState]) -> None:
    if insight.state not in allowed or insight.changeset_id:
        fault = (
            gettext("is %(state)s already by %(person)s") if insight.reviewed_by else gettext("is %(state)s already")
        )
        # An approval of a rejected insight is possible, once its curator has seen the rejection.
        is_open = insight.state == InsightState.REJECTED and InsightState.REJECTED not in allowed
        hint = "its author can appeal" if is_open and InsightState.APPROVED not in allowed else ""
        raise Conflict(
            fault % {"state": insight.state, "person": insight.reviewed_by}, field="insight_id", allowed=hint
        )


def _require_no_duplicate(caller: Caller, insight: Insight) -> None:
    if duplicate := find_duplicate(insight.record):
        raise Conflict(
            gettext("has the same text as another memory, %(memory)s: decide on that one")
            % {"memory": reference(caller, duplicate)},
            field="insight_id",
        )


def step_values(insight: Insight, *names: str) -> dict[str, Any]:
    """Return the values of these columns before a step in the review, as undoing the step restores them."""
    values = {name: getattr(insight, name) for name in names}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}


def _not_yours(decided_by: str) -> str:
    return f"was decided by {decided_by}: only they or an admin can undo it"


def _decide(caller: Caller, insight: Insight, state: InsightState, notes: str, decided_by: str, seen: str) -> None:
    insight.state = state
    insight.question_at = None
    insight.snoozed_until = None
    insight.reviewed_by = caller.email
    insight.reviewed_at = timezone.now()
    insight.review_notes = notes.strip()
    insight.save(update_fields=["state", "question_at", "snoozed_until", "reviewed_by", "reviewed_at", "review_notes"])
    kind = DecisionKind.APPROVED if state == InsightState.APPROVED else DecisionKind.REJECTED
    overturns = "" if decided_by == caller.email else decided_by
    colleagues = overridden(caller, insight, seen)
    decision = record_decision(caller, insight, kind, notes, overturns=overturns)
    events.announce_decision(insight, decision, to=[insight.record.created_by], overridden=colleagues)


def record_decision(
    caller: Caller,
    insight: Insight,
    kind: DecisionKind,
    notes: str,
    *,
    before: Mapping[str, Any] | None = None,
    overturns: str = "",
) -> Decision:
    return Decision.objects.create(
        insight=insight, kind=kind, by=caller.email, notes=notes.strip(), before=dict(before or {}), overturns=overturns
    )
