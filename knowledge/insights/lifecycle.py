"""The life cycle of insights: editing, applying and returning to review.

An insight and its memory are changed in the same transaction. For the decisions of curators, see review/decisions.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import identity
from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from knowledge.insights import events, waiting_edits
from knowledge.insights.queries import may_curate
from knowledge.insights.seen import require_unchanged
from knowledge.models import Changeset, Insight, InsightState
from knowledge.operations import EDITABLE, TEXTS, Edit
from memories import services
from memories.models import IN_USE, MemoryRecord, Status, Visibility
from memories.validity import rules
from memories.validity.scopes.choices import scope_for
from memories.writing import correction_chains
from memories.writing.exact_duplicates import find_plain, plain_twin
from memories.writing.revision import revised


def require_curator_of(caller: Caller, record: MemoryRecord) -> None:
    """Raise Forbidden unless the caller is an admin, or a curator who holds the memory's persona."""
    require_curator(caller)
    if not caller.can_review_for(record.persona):
        raise Forbidden(
            gettext("belongs to the persona %(persona)s: only its curators can decide") % {"persona": record.persona},
            field="insight_id",
        )


def require_curator(caller: Caller) -> None:
    if not may_curate(caller):
        raise Forbidden(gettext("only curators can review and apply; ask an admin to add you to the group Curators"))


def edit(caller: Caller, operation: Edit) -> Insight:
    with transaction.atomic():
        insight = save_edit(caller, operation)
    services.index_now(caller, insight.record)
    return insight


def save_edit(caller: Caller, operation: Edit) -> Insight:
    """Edit a pending insight inside the caller's transaction. Its new text is not indexed yet.

    Raises Invalid if the operation names no fields, Conflict if the insight is not pending, and Forbidden if the caller
    is neither its owner nor a curator of its persona.
    """
    actions = (
        None if operation.suggested_actions is None else [action.as_action() for action in operation.suggested_actions]
    )
    changes = operation.explicit_values(*TEXTS)
    if actions is None and not changes:
        raise Invalid(gettext("no fields to change; allowed: %(names)s") % {"names": ", ".join(EDITABLE)})
    insight = locked_insight(caller, operation.insight_id)
    if not caller.can_edit_for(insight.record.created_by):
        require_curator_of(caller, insight.record)
    require_unchanged(insight, operation.seen, operation.override)
    if insight.state != InsightState.PENDING:
        raise Conflict(
            gettext(
                "is %(state)s: only pending insights can be edited here. Its owner can update its memory, or a "
                "curator returns it to the queue first (undo_review)"
            )
            % {"state": insight.state},
            field="insight_id",
        )
    if "scope" in changes:
        changes["scope"] = scope_for(caller, changes["scope"], of=insight.record)
    is_new_text = changes.get("content", insight.record.content) != insight.record.content
    changes |= rules.validity_columns(changes, insight.record)
    updated_at = insight.record.updated_at
    with revised(caller, insight.record, "edit", "edited in review"):
        for name, value in changes.items():
            setattr(insight.record, name, value)
        if is_new_text:
            if insight.record.status == Status.STALE:
                correction_chains.activate(insight.record)
            insight.record.metadata = services.with_editor(caller, insight.record, insight.record.metadata)
    has_new_actions = actions is not None and actions != insight.suggested_actions
    insight.is_edited = has_new_actions or insight.record.updated_at != updated_at
    if has_new_actions:
        insight.suggested_actions = actions
        insight.save(update_fields=["suggested_actions"])
    return insight


def replaceable_memory(caller: Caller, record_id: UUID) -> MemoryRecord:
    record = MemoryRecord.objects.visible_to(caller).filter(pk=record_id).first()
    if record is None:
        raise NotFound(gettext("no such memory"), field="supersedes")
    if record.superseded_by:
        correction = correction_chains.active_correction(record)
        named = correction_chains.reference(caller, correction) if correction else "a memory"
        allowed = gettext("its correction") if correction and named == correction.pk.hex else ""
        raise Conflict(
            gettext("was already corrected, by %(named)s") % {"named": named}, field="supersedes", allowed=allowed
        )
    return record


def set_replaced(caller: Caller, *, insight_id: UUID | str, record_id: UUID | str | None) -> Insight:
    """Set the memory that an insight replaces when it is applied, or none if `record_id` is empty.

    Raises Forbidden if the caller is not a curator of the insight's persona.
    """
    replaced = replaceable_memory(caller, validate(Id, record_id, "supersedes")) if record_id else None
    with transaction.atomic():
        insight = locked_insight(caller, insight_id)
        require_curator_of(caller, insight.record)
        if insight.state not in (InsightState.PENDING, InsightState.APPROVED) or insight.changeset_id:
            raise Conflict(
                gettext("is %(state)s: the choice of the memory that it replaces is final") % {"state": insight.state},
                field="insight_id",
            )
        if replaced and replaced.pk == insight.pk:
            raise Conflict(gettext("can't be the insight itself"), field="supersedes")
        if replaced and replaced.status not in IN_USE:
            raise Conflict(
                gettext("is %(status)s: only active and stale memories can be replaced") % {"status": replaced.status},
                field="supersedes",
            )
        insight.replaces = replaced
        insight.save(update_fields=["replaces"])
    return insight


def locked_insight(caller: Caller, insight_id: UUID | str) -> Insight:
    """Lock and return an insight with its record. Raises NotFound if the caller may not see it."""
    pk = validate(Id, insight_id, "insight_id")
    if not Insight.objects.visible_to(caller).filter(pk=pk).exists():
        raise NotFound(gettext("no such insight"), field="insight_id")
    record = MemoryRecord.objects.select_for_update().get(pk=pk)
    insight = Insight.objects.select_for_update().get(pk=pk)
    insight.record = record
    return insight


def _lock_with_record(insight: Insight) -> None:
    """Lock the memory of an insight and then the insight, as all verbs do, and read both anew."""
    record = MemoryRecord.objects.select_for_update().get(pk=insight.pk)
    insight.refresh_from_db(from_queryset=Insight.objects.select_for_update())
    insight.record = record


def back_to_pending(caller: Caller, insight: Insight, change: str) -> None:
    """Move an insight back to the review queue and make its memory private."""
    # A rejection archives the memory, so the memory of a rejected insight gets its earlier state back. The memory of a
    # withdrawn insight stays archived.
    was_rejected = insight.state == InsightState.REJECTED
    insight.state = InsightState.PENDING
    insight.changeset = None
    insight.reviewed_by = ""
    insight.reviewed_at = None
    insight.review_notes = ""
    insight.applied_by = ""
    insight.applied_at = None
    insight.pending_edit = {}
    insight.edit_by = ""
    insight.edit_at = None
    insight.question_at = None
    insight.snoozed_until = None
    insight.save()
    record = insight.record
    with revised(caller, record, change, ""):
        record.visibility = Visibility.PRIVATE
        if was_rejected and record.status == Status.ARCHIVED:
            correction_chains.reactivate(record)


# -- effects of applying and rolling back ---------------------------------------------------------------


@identity.service("promotion")
def bind(caller: Caller, insights: Sequence[Insight], changeset: Changeset) -> None:
    """Bind approved insights to a changeset. Raises Conflict if one of them can no longer be applied.

    Call it inside the transaction that saves the changeset.
    """
    replaced = [insight.replaces_id for insight in insights if insight.replaces_id]
    # Locked, so that two changesets can't replace the same memory at the same time.
    list(MemoryRecord.objects.select_for_update().filter(pk__in=replaced).order_by("pk").values_list("pk"))
    require_replaceable(caller, insights)
    ids = [insight.pk for insight in insights]
    free = Insight.objects.filter(pk__in=ids, state=InsightState.APPROVED, changeset__isnull=True)
    free = free.filter(record__in=MemoryRecord.objects.filter(pk__in=ids, status__in=IN_USE))
    if free.update(changeset=changeset) != len(ids):
        raise Conflict(gettext("another user is applying or has changed one of these insights"), field="insight_ids")


@identity.service("promotion")
def require_replaceable(caller: Caller, insights: Sequence[Insight]) -> None:
    """Raise Conflict if a memory that one of the insights replaces has another correction, or will have one.

    Otherwise a correction chain would have two current ends.
    """
    ids = [insight.pk for insight in insights]
    in_progress = Insight.objects.filter(state=InsightState.APPROVED, changeset__isnull=False).exclude(pk__in=ids)
    replacing: dict[UUID, UUID] = dict(in_progress.filter(replaces__isnull=False).values_list("replaces_id", "pk"))
    for insight in insights:
        if insight.replaces_id is None:
            continue
        old = MemoryRecord.objects.defer("search").get(pk=insight.replaces_id)
        correction = correction_chains.active_correction(old)
        other = correction.pk if correction else replacing.get(old.pk)
        if other and other != insight.pk:
            named = correction_chains.reference(caller, MemoryRecord.objects.defer("search").get(pk=other))
            raise Conflict(
                gettext(
                    "%(insight)s replaces %(old)s, which %(named)s has replaced already, or replaces at "
                    "the same time: a curator can choose on the page of %(insight)s that it replaces that one"
                )
                % {"insight": insight.pk.hex, "old": old.pk.hex, "named": named},
                field="insight_ids",
            )
        replacing[old.pk] = insight.pk


@identity.service("promotion")
def unbind(changeset: Changeset) -> None:
    """Unbind the insights of a changeset that wrote nothing. The insights stay approved."""
    Insight.objects.filter(changeset=changeset, state=InsightState.APPROVED).update(changeset=None)


@identity.service("promotion")
def mark_applied(caller: Caller, changeset: Changeset) -> tuple[int, list[str]]:
    """Mark the insights of a changeset as applied and make their memories readable by everyone.

    Memories that the insights replace are superseded. Returns the number of insights, and why memories were not
    superseded that another correction has replaced since the changeset was planned.
    """
    problems = []
    with transaction.atomic():
        bound = list(Insight.objects.filter(changeset=changeset, state=InsightState.APPROVED).order_by("pk"))
        for insight in bound:
            old = _lock_replaced(insight)  # before its correction, as everywhere
            _lock_with_record(insight)
            if (insight.changeset_id, insight.state) != (changeset.pk, InsightState.APPROVED):
                continue
            insight.state = InsightState.APPLIED
            insight.applied_by = caller.email
            insight.applied_at = timezone.now()
            insight.save(update_fields=["state", "applied_by", "applied_at"])
            with revised(caller, insight.record, "apply", f"changeset {changeset.pk.hex}"):
                insight.record.visibility = Visibility.EVERYONE
            if old is not None:
                problems.append(correction_chains.supersede_with(caller, record=insight.record, old=old))
            events.announce(events.APPLIED, insight, by=caller.email, to=[insight.record.created_by])
    return len(bound), [problem for problem in problems if problem]


def _lock_replaced(insight: Insight) -> MemoryRecord | None:
    """Lock and return the memory that the insight replaces, or its author's memory with the same text."""
    rows = MemoryRecord.objects.select_for_update()
    if insight.replaces_id:
        return rows.filter(pk=insight.replaces_id).first()
    plain = find_plain(MemoryRecord.objects.defer("search").get(pk=insight.pk))
    pk = plain.pk if plain else insight.beside_id
    return rows.filter(pk=pk, status__in=IN_USE).first() if pk else None


@identity.service("promotion")
def return_to_review(caller: Caller, changeset: Changeset) -> int:
    """Move the insights of a rolled-back changeset back to review.

    A memory that such an insight had superseded gets its earlier state back, unless another correction is in force.
    Then the two are linked to each other. Returns the number of insights.
    """
    with transaction.atomic():
        bound = list(Insight.objects.filter(changeset=changeset).order_by("pk"))
        for insight in bound:
            old = correction_chains.lock_predecessor(insight.pk)
            _lock_with_record(insight)
            if insight.changeset_id != changeset.pk:
                continue
            correction_chains.undo_supersede(caller, record=insight.record, old=old)
            if old is not None:
                relinked = Insight.objects.filter(replaces=insight.pk, record__supersedes=old)
                relinked.update(replaces=old)
            if insight.pending_edit:  # what its author wants is part of the proposal again
                waiting_edits.make_edit(caller, insight, "revise", gettext("the edit waited before the rollback"))
            back_to_pending(caller, insight, "roll_back")
            events.announce(events.ROLLED_BACK, insight, by=caller.email, to=[insight.record.created_by])
    return len(bound)


@dataclass(frozen=True)
class ChainEffect:
    """Effect of a rollback on a memory that an insight had replaced."""

    memory: MemoryRecord
    correction: MemoryRecord | None = None  # corrects the memory from then on
    is_repeated: bool = False  # its owner has remembered the text again, so the memory is archived

    def __str__(self) -> str:
        if self.correction:
            return f"{self.memory.pk.hex} stays superseded: {self.correction.pk.hex} corrects it from then on"
        if self.is_repeated:
            return f"{self.memory.pk.hex} is archived: its owner has remembered the same text again"
        return f"{self.memory.pk.hex} is in force again"


def chain_effects(caller: Caller, changeset: Changeset) -> list[ChainEffect]:
    """Return what a rollback of the changeset would do with replaced memories, as far as the caller may read them."""
    visible = MemoryRecord.objects.visible_to(caller).defer("search")
    effects = []
    for insight in Insight.objects.filter(changeset=changeset).select_related("record"):
        old = visible.filter(successors=insight.pk).first()
        correction = correction_chains.active_correction(insight.record)
        if old and correction and visible.filter(pk=correction.pk).exists():
            effects.append(ChainEffect(old, correction))
        elif old and not correction and old.superseded_by == insight.pk and old.status == Status.SUPERSEDED:
            effects.append(ChainEffect(old, is_repeated=plain_twin(old) is not None))
    return effects
