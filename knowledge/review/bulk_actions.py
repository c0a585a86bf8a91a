"""Bulk actions of curators on insights and changesets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy

from foundation.operations.operation import validate
from foundation.people.caller import Caller
from knowledge.changesets import rollback
from knowledge.insights.seen import versions_of
from knowledge.models import Insight, InsightState
from knowledge.review import clarifications, decisions, snooze, suggested
from knowledge.review.review_page import QUESTIONS, REASONS
from memories.writing.bulk_actions import ActionInput, BulkAction

Insights = QuerySet[Insight]
UNDECIDED = Q(state=InsightState.PENDING) | ~Q(pending_edit={})  # including an edit that waits for approval


# -- which rows an action is offered for -----------------------------------------------------------------------


def _of_others(caller: Caller, rows: Insights) -> Insights:
    """Filter to the insights that the caller may decide about: those of the personas held, but not one's own."""
    if caller.is_admin:
        return rows
    return rows.filter(record__persona__in=caller.personas).exclude(record__created_by=caller.email)


def _approvable(caller: Caller, rows: Insights) -> Insights:
    return _of_others(caller, rows).filter(UNDECIDED | Q(state=InsightState.REJECTED))


def _rejectable(caller: Caller, rows: Insights) -> Insights:
    return _of_others(caller, rows).filter(UNDECIDED | Q(state=InsightState.APPROVED))


def _undecided_of_others(caller: Caller, rows: Insights) -> Insights:
    return _of_others(caller, rows).filter(UNDECIDED)


def _undecided(caller: Caller, rows: Insights) -> Insights:
    return rows.filter(UNDECIDED)


def _in_states(*states: str) -> Callable[[Caller, QuerySet[Any]], QuerySet[Any]]:
    return lambda caller, rows: rows.filter(state__in=states)


def _colleagues(caller: Caller) -> list[tuple[str, str]]:
    return [(person.email, str(person)) for person in clarifications.colleagues(caller)]


# -- what an action does with a row ----------------------------------------------------------------------------


def _approve(caller: Caller, pk: UUID, entered: ActionInput) -> object:
    return decisions.approve(caller, insight_id=pk, notes=entered.note, seen=entered.seen)


def _reject(caller: Caller, pk: UUID, entered: ActionInput) -> object:
    return decisions.reject(caller, insight_id=pk, notes=entered.note, seen=entered.seen)


def _request_changes(caller: Caller, pk: UUID, entered: ActionInput) -> object:
    return clarifications.request_changes(caller, insight_id=pk, notes=entered.note, seen=entered.seen)


def _hand_over(caller: Caller, pk: UUID, entered: ActionInput) -> object:
    return clarifications.reassign(caller, insight_id=pk, to=entered.choice, notes=entered.note, seen=entered.seen)


def _snooze(caller: Caller, pk: UUID, entered: ActionInput) -> object:
    until = validate(datetime, entered.choice, "until")
    return snooze.snooze(caller, insight_id=pk, until=until, notes=entered.note, seen=entered.seen)


def _undo_review(caller: Caller, pk: UUID, entered: ActionInput) -> object:
    return decisions.undo_review(caller, insight_id=pk, seen=entered.seen, until=entered.until)


INSIGHT_ACTIONS = {
    "approve": BulkAction(
        _approve,
        title=gettext_lazy("Approve"),
        done=gettext_lazy("Approved"),
        description=gettext_lazy(
            "Each memory gets the readers that its owner asked for. Unless you are an admin, your own insights and "
            "those of personas that you don't hold are skipped and stay undecided."
        ),
        inverse="undo_review",
        kind="insight",
        offered=_approvable,
        versions=versions_of,
    ),
    "reject": BulkAction(
        _reject,
        title=gettext_lazy("Reject"),
        done=gettext_lazy("Rejected"),
        description=gettext_lazy("Archives each memory and shows the reason to its author."),
        inverse="undo_review",
        kind="insight",
        note_missing=gettext_lazy("is missing: the authors need to know why"),
        notes=REASONS,
        offered=_rejectable,
        versions=versions_of,
    ),
    "needs_more": BulkAction(
        _request_changes,
        title=gettext_lazy("Needs info"),
        done=gettext_lazy("Sent back to the author with a question"),
        description=gettext_lazy(
            "Asks the authors your question. The insights leave the queue until their authors have answered."
        ),
        inverse="undo_review",
        kind="insight",
        note_missing=gettext_lazy("is missing: the authors need to know what to add"),
        notes=QUESTIONS,
        offered=_undecided_of_others,
        versions=versions_of,
    ),
    "hand_over": BulkAction(
        _hand_over,
        title=gettext_lazy("Hand to a colleague"),
        done=gettext_lazy("Handed to a colleague"),
        description=gettext_lazy("Asks a colleague to decide. Other curators can still decide, too."),
        inverse="undo_review",
        kind="insight",
        choice_label=gettext_lazy("The colleague"),
        choices=_colleagues,
        offered=_undecided,
        versions=versions_of,
    ),
    "snooze": BulkAction(
        _snooze,
        title=gettext_lazy("Snooze"),
        done=gettext_lazy("Snoozed"),
        inverse="undo_review",
        kind="insight",
        choice_label=gettext_lazy("Until"),
        offered=_undecided,
        versions=versions_of,
    ),
    "undo_review": BulkAction(
        _undo_review,
        title=gettext_lazy("Undo decision"),
        done=gettext_lazy("Returned to the queue"),
        description=gettext_lazy(
            "Undoes the last decision and returns the insights to review. Applied insights have to be rolled back "
            "instead."
        ),
        kind="insight",
        offered=_in_states(InsightState.APPROVED, InsightState.REJECTED),
        versions=versions_of,
    ),
    "apply": BulkAction(
        lambda caller, pk, entered: suggested.apply_at_once(caller, insight_id=pk, seen=entered.seen),
        title=gettext_lazy("Apply to the catalog"),
        done=gettext_lazy("Applied"),
        description=gettext_lazy(
            "Writes the suggested changes of approved insights to the catalog. Each insight gets its own changeset, "
            "which can be rolled back."
        ),
        inverse="roll_back_insight",
        kind="insight",
        is_slow=True,
        offered=_in_states(InsightState.APPROVED),
        versions=versions_of,
    ),
    "roll_back_insight": BulkAction(
        lambda caller, pk, entered: suggested.roll_back(caller, insight_id=pk, until=entered.until),
        title=gettext_lazy("Roll back"),
        done=gettext_lazy("Rolled back"),
        description=gettext_lazy(
            "Restores the previous values in the catalog and returns the insights to review. An insight is skipped if "
            "others have changed its values in the catalog since."
        ),
        kind="insight",
        is_slow=True,
        offered=_in_states(InsightState.APPLIED),
    ),
    "roll_back": BulkAction(
        lambda caller, pk, entered: rollback.roll_back(caller, changeset_id=pk),
        title=gettext_lazy("Roll back"),
        done=gettext_lazy("Rolled back"),
        description=gettext_lazy("Restores the previous values in the catalog and returns the insights to review."),
        kind="changeset",
        is_slow=True,
        offered=_in_states(*rollback.ROLLED_BACK_FROM),
    ),
}
