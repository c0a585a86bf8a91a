"""The life cycle of insights: editing, applying and returning to review.

An insight and its memory are changed in the same transaction. For the decisions of curators, see review/decisions.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from knowledge.insights.queries import may_curate
from knowledge.models import Changeset, Insight, InsightState
from knowledge.operations import TEXTS, Edit
from knowledge.review import events
from memories import services
from memories.contract.errors import Conflict, Forbidden, Invalid, NotFound
from memories.contract.fields import Id
from memories.contract.operations import validate
from memories.identity.caller import Caller
from memories.models import MemoryRecord, Status, Visibility
from memories.writing import correction_chains
from memories.writing.revision import revised


def require_curator_of(caller: Caller, record: MemoryRecord) -> None:
    """Raise Forbidden unless the caller is an admin, or a curator who holds the memory's persona."""
    require_curator(caller)
    if not caller.can_review_for(record.persona):
        raise Forbidden(f"belongs to the persona {record.persona}: only its curators can decide", field="insight_id")


def require_curator(caller: Caller) -> None:
    if not may_curate(caller):
        raise Forbidden("only curators can review and apply; ask an admin to add you to the group Curators")


def edit(operation: Edit, *, caller: Caller) -> Insight:
    actions = (
        None if operation.suggested_actions is None else [action.as_action() for action in operation.suggested_actions]
    )
    changes = operation.explicit_values(*TEXTS)
    if actions is None and not changes:
        raise Invalid("no fields to change; allowed: content, suggested_actions, category, confidence, entity_urns")
    with transaction.atomic():
        insight = locked_insight(caller, operation.insight_id)
        if not caller.can_edit_for(insight.record.created_by):
            require_curator_of(caller, insight.record)
        if insight.state != InsightState.PENDING:
            raise Conflict(f"is {insight.state}: only pending insights can be edited", field="insight_id")
        is_new_text = changes.get("content", insight.record.content) != insight.record.content
        with revised(caller, insight.record, "edit", "edited in review"):
            for name, value in changes.items():
                setattr(insight.record, name, value)
            if is_new_text:
                insight.record.metadata = services.with_editor(caller, insight.record, insight.record.metadata)
        if actions is not None:
            insight.suggested_actions = actions
            insight.save(update_fields=["suggested_actions"])
    services.index_now(caller, insight.record)
    return insight


def replaceable_memory(caller: Caller, record_id: UUID) -> MemoryRecord:
    record = MemoryRecord.objects.visible_to(caller).filter(pk=record_id).first()
    if record is None:
        raise NotFound("no such memory", field="supersedes")
    if record.superseded_by:
        raise Conflict(f"was already corrected, by {record.superseded_by.hex}", field="supersedes")
    return record


def set_replaced(*, caller: Caller, insight_id: UUID | str, record_id: UUID | str | None) -> Insight:
    """Set the memory that an insight replaces when it is applied, or none if `record_id` is empty.

    Raises Forbidden if the caller is not a curator of the insight's persona.
    """
    replaced = replaceable_memory(caller, validate(Id, record_id, "supersedes")) if record_id else None
    with transaction.atomic():
        insight = locked_insight(caller, insight_id)
        require_curator_of(caller, insight.record)
        if insight.state not in (InsightState.PENDING, InsightState.APPROVED) or insight.changeset_id:
            raise Conflict(
                f"is {insight.state}: the choice of the memory that it replaces is final", field="insight_id"
            )
        if replaced and replaced.pk == insight.pk:
            raise Conflict("can't be the insight itself", field="supersedes")
        if replaced and replaced.status not in (Status.ACTIVE, Status.STALE):
            raise Conflict(f"is {replaced.status}: only active and stale memories can be replaced", field="supersedes")
        insight.replaces = replaced
        insight.save(update_fields=["replaces"])
    return insight


def locked_insight(caller: Caller, insight_id: UUID | str) -> Insight:
    """Lock and return an insight with its record. Raises NotFound if the caller may not see it."""
    pk = validate(Id, insight_id, "insight_id")
    if not Insight.objects.visible_to(caller).filter(pk=pk).exists():
        raise NotFound("no such insight", field="insight_id")
    record = MemoryRecord.objects.select_for_update().get(pk=pk)
    insight = Insight.objects.select_for_update().get(pk=pk)
    insight.record = record
    return insight


def back_to_pending(caller: Caller, insight: Insight, change: str) -> None:
    """Move an insight back to the review queue and make its memory private."""
    # A rejection archives the memory, so the memory of a rejected insight becomes active again. The memory of a
    # withdrawn insight stays archived.
    was_rejected = insight.state == InsightState.REJECTED
    insight.state, insight.changeset = InsightState.PENDING, None
    insight.reviewed_by, insight.reviewed_at, insight.review_notes = "", None, ""
    insight.applied_by, insight.applied_at = "", None
    insight.pending_edit, insight.edit_by, insight.edit_at = {}, "", None
    insight.question_at = None
    insight.save()
    record = insight.record
    with revised(caller, record, change, ""):
        record.visibility = Visibility.PRIVATE
        if was_rejected and record.status == Status.ARCHIVED:
            record.status = Status.ACTIVE


# -- effects of applying and rolling back ---------------------------------------------------------------


def bind(insight_ids: Iterable[UUID], changeset: Changeset) -> None:
    """Bind approved insights to a changeset. Raises Conflict if one of them can no longer be applied.

    Call it inside the transaction that saves the changeset.
    """
    ids = list(insight_ids)
    current = [Status.ACTIVE, Status.STALE]
    free = Insight.objects.filter(pk__in=ids, state=InsightState.APPROVED, changeset__isnull=True)
    free = free.filter(record__in=MemoryRecord.objects.filter(pk__in=ids, status__in=current))
    if free.update(changeset=changeset) != len(ids):
        raise Conflict("another user is applying or has changed one of these insights", field="insight_ids")


def unbind(changeset: Changeset) -> None:
    """Unbind the insights of a changeset that wrote nothing. The insights stay approved."""
    Insight.objects.filter(changeset=changeset, state=InsightState.APPROVED).update(changeset=None)


def mark_applied(caller: Caller, changeset: Changeset) -> int:
    """Mark the insights of a changeset as applied and make their memories readable by everyone.

    Active or stale memories that the insights replace are superseded. Returns the number of insights.
    """
    with transaction.atomic():
        bound = list(Insight.objects.select_for_update().filter(changeset=changeset, state=InsightState.APPROVED))
        for insight in bound:
            insight.record = MemoryRecord.objects.select_for_update().get(pk=insight.pk)
            insight.state, insight.applied_by, insight.applied_at = InsightState.APPLIED, caller.email, timezone.now()
            insight.save(update_fields=["state", "applied_by", "applied_at"])
            with revised(caller, insight.record, "apply", f"changeset {changeset.pk.hex}"):
                insight.record.visibility = Visibility.EVERYONE
            if insight.replaces_id:
                correction_chains.supersede_with(
                    caller=caller, record=insight.record, predecessor_id=insight.replaces_id
                )
            events.announce(events.APPLIED, insight, by=caller.email, to=[insight.record.created_by])
    return len(bound)


def return_to_review(caller: Caller, changeset: Changeset) -> int:
    """Move the insights of a rolled-back changeset back to review.

    The memories that the insights had superseded become active again. Returns the number of insights.
    """
    with transaction.atomic():
        bound = list(Insight.objects.select_for_update().filter(changeset=changeset))
        for insight in bound:
            insight.record = MemoryRecord.objects.select_for_update().get(pk=insight.pk)
            correction_chains.reactivate_predecessor(caller=caller, record=insight.record)
            back_to_pending(caller, insight, "roll_back")
            events.announce(events.ROLLED_BACK, insight, by=caller.email, to=[insight.record.created_by])
    return len(bound)
