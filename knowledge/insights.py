"""Insights: captured, reviewed, edited, taken back. The review state and its memory always move together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from analysis import findings
from knowledge.change_types import clean_request
from knowledge.models import Changeset, Insight, InsightState
from knowledge.queries import may_curate
from memories import chains, services, validation
from memories.access import Caller
from memories.errors import Conflict, Forbidden, Invalid, NotFound, check_choice, check_count
from memories.models import Category, MemoryRecord, Source, Status, Visibility
from memories.revising import revised
from memories.similar import Similar

CATEGORIES = [value for value in Category.values if value != Category.GENERAL]
SOURCES = [Source.USER.value, Source.AGENT_DISCOVERY.value, Source.ENRICHMENT_GAP.value]
ACTIONS_MAX = 5
AT_ONCE = 50  # insights in one call


@dataclass(frozen=True)
class Captured:
    insight: Insight
    existing: bool = False
    similar: list[Similar] = field(default_factory=list)
    note: str = ""


def capture(
    *,
    caller: Caller,
    insight_text: str,
    category: str,
    confidence: str = "medium",
    source: str = Source.USER,
    entity_urns: Sequence[str] = (),
    related_columns: Sequence[Mapping[str, str]] = (),
    suggested_actions: Sequence[Mapping[str, Any]] = (),
    supersedes: str = "",
    visibility: str = Visibility.PERSONA,
    finding_id: str = "",
) -> Captured:
    """Proposes something for the catalog: a private memory that waits for a curator. `visibility` is what it gets
    once approved; `supersedes` the memory whose place it takes once applied; `finding_id` the finding of an analysis
    that it comes from, whose text it takes where none is given."""
    provenance: dict[str, Any] = {}
    if finding_id:
        found = findings.one(caller, finding_id)
        insight_text = insight_text or found.finding
        provenance = {"finding_id": found.pk.hex, "analysis_id": found.session.analysis_id, "model": found.model}
    check_choice("category", category, CATEGORIES)
    check_choice("source", source, SOURCES)
    check_choice("visibility", visibility, Visibility.values)
    actions = clean_actions(suggested_actions)
    replaced = _replaceable(caller, supersedes) if supersedes else None
    made: list[Insight] = []

    def propose(record: MemoryRecord) -> None:
        made.append(_propose(caller, record, actions, visibility, replaced))

    try:
        answer = services.remember(
            caller=caller,
            content=insight_text,
            category=category,
            confidence=confidence,
            source=source,
            entity_urns=entity_urns,
            related_columns=related_columns,
            visibility=Visibility.PRIVATE,
            metadata=provenance,
            within=propose,
        )
    except Invalid as error:
        field_name = "insight_text" if error.field == "content" else error.field
        raise Invalid(error.fault, field=field_name, allowed=error.allowed) from None
    return Captured(made[0], existing=answer.existing, similar=answer.similar, note=answer.note)


def clean_actions(given: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    check_count("suggested_actions", given, ACTIONS_MAX)
    actions = []
    for place, action in enumerate(given):
        request = clean_request(action, f"suggested_actions[{place}]")
        shown = {"action_type": request.change_type, "target": request.target, "detail": request.detail}
        extras = {"query_sql": request.query_sql, "query_description": request.query_description}
        actions.append(shown | {name: text for name, text in extras.items() if text})
    return actions


def _replaceable(caller: Caller, record_id: str) -> MemoryRecord:
    pk = validation.clean_id(record_id, "supersedes")
    record = MemoryRecord.objects.visible_to(caller).filter(pk=pk).first()
    if record is None:
        raise NotFound("no such memory", field="supersedes")
    if record.superseded_by:
        raise Conflict(f"was corrected already, by {record.superseded_by.hex}", field="supersedes")
    return record


def _propose(
    caller: Caller,
    record: MemoryRecord,
    actions: list[dict[str, str]],
    visibility: str,
    replaced: MemoryRecord | None,
) -> Insight:
    """The insight of a record. A plain memory with this very text becomes one: it is withdrawn until reviewed."""
    known = Insight.objects.filter(pk=record.pk).first()
    if known:
        return known
    if record.visibility != Visibility.PRIVATE:
        locked = MemoryRecord.objects.select_for_update().get(pk=record.pk)
        with revised(caller, locked, "capture", "proposed as an insight"):
            locked.visibility = Visibility.PRIVATE
    return Insight.objects.create(
        record=record, suggested_actions=actions, wanted_visibility=visibility, replaces=replaced
    )


# -- review ------------------------------------------------------------------------------------------------


def require_curator_of(caller: Caller, record: MemoryRecord) -> None:
    """A persona's insights are decided by those curators who hold it, also where others may read them."""
    require_curator(caller)
    if record.persona not in caller.personas and not caller.is_admin:
        raise Forbidden(f"belongs to the persona {record.persona}: its curators decide", field="insight_id")


def require_curator(caller: Caller) -> None:
    if not may_curate(caller):
        raise Forbidden("only curators review and apply; ask an admin for the group Curators")


def approve(*, caller: Caller, insight_id: UUID | str, notes: str = "") -> Insight:
    """A curator agrees: the memory gets the visibility that its owner wanted."""
    pending = {InsightState.PENDING}
    with (
        _decided(caller, insight_id, pending, InsightState.APPROVED, notes) as insight,
        revised(caller, insight.record, "approve", notes),
    ):
        insight.record.visibility = insight.wanted_visibility
    return insight


def reject(*, caller: Caller, insight_id: UUID | str, notes: str = "") -> Insight:
    """A curator disagrees: the memory is archived, and recalled no more."""
    states = {InsightState.PENDING, InsightState.APPROVED}
    with (
        _decided(caller, insight_id, states, InsightState.REJECTED, notes) as insight,
        revised(caller, insight.record, "reject", notes),
    ):
        insight.record.status = Status.ARCHIVED
        insight.record.visibility = Visibility.PRIVATE
    return insight


def undo_review(*, caller: Caller, insight_id: UUID | str) -> Insight:
    """Takes a decision back, by who made it or an admin, as long as nothing was applied on it."""
    require_curator(caller)
    with transaction.atomic():
        insight = _locked(caller, insight_id)
        require_curator_of(caller, insight.record)
        if insight.state not in (InsightState.APPROVED, InsightState.REJECTED):
            raise Conflict(f"is {insight.state}: there is no decision to take back", field="insight_id")
        if insight.changeset_id:
            raise Conflict("is being applied: roll that back instead", field="insight_id")
        if insight.reviewed_by != caller.email and not caller.is_admin:
            raise Forbidden(f"was decided by {insight.reviewed_by}", field="insight_id")
        if insight.state == InsightState.APPROVED and insight.record.status == Status.ARCHIVED:
            raise Conflict("was archived by its owner", field="insight_id")
        if insight.state == InsightState.REJECTED and (twin := services.living_twin(insight.record)):
            raise Conflict(f"the same was remembered anew, as {twin.pk.hex}", field="insight_id")
        _back_to_pending(caller, insight, "undo_review")
    return insight


def edit(
    *,
    caller: Caller,
    insight_id: UUID | str,
    content: str | None = None,
    suggested_actions: Sequence[Mapping[str, Any]] | None = None,
    **changes: Any,
) -> Insight:
    """A curator (or the owner) mends a pending insight's text or actions before it is decided."""
    actions = None if suggested_actions is None else clean_actions(suggested_actions)
    cleaned = services.clean_changes({"content": content, **changes})
    if actions is None and not cleaned:
        raise Invalid("no fields to change; allowed: content, suggested_actions, category, confidence, entity_urns")
    with transaction.atomic():
        insight = _locked(caller, insight_id)
        if not caller.acts_for(insight.record.created_by):
            require_curator_of(caller, insight.record)
        if insight.state != InsightState.PENDING:
            raise Conflict(f"is {insight.state}: only a pending insight is edited", field="insight_id")
        with revised(caller, insight.record, "edit", "edited in review"):
            for name, value in cleaned.items():
                setattr(insight.record, name, value)
        if actions is not None:
            insight.suggested_actions = actions
            insight.save(update_fields=["suggested_actions"])
    services.index_now(caller, insight.record)
    return insight


@contextmanager
def _decided(
    caller: Caller, insight_id: UUID | str, allowed: set[InsightState], state: InsightState, notes: str
) -> Iterator[Insight]:
    """One decision: permission, lock, transition; the block moves the memory with it, in the same transaction."""
    require_curator(caller)
    notes = validation.clean_text("review_notes", notes, 0, validation.REASON_MAX)
    with transaction.atomic():
        insight = _locked(caller, insight_id)
        require_curator_of(caller, insight.record)
        if insight.record.created_by == caller.email and not caller.is_admin:
            raise Forbidden("is your own: somebody else has to review it", field="insight_id")
        if insight.state not in allowed or insight.changeset_id:
            by = f" by {insight.reviewed_by}" if insight.reviewed_by else ""
            raise Conflict(f"is {insight.state} already{by}", field="insight_id")
        if insight.record.status not in (Status.ACTIVE, Status.STALE):
            raise Conflict(f"was {insight.record.status} by its owner", field="insight_id")
        insight.state = state
        insight.reviewed_by, insight.reviewed_at, insight.review_notes = caller.email, timezone.now(), notes
        insight.save(update_fields=["state", "reviewed_by", "reviewed_at", "review_notes"])
        yield insight


def _locked(caller: Caller, insight_id: UUID | str) -> Insight:
    """The insight and its record, both locked, if the caller sees it."""
    pk = validation.clean_id(insight_id, "insight_id")
    if not Insight.objects.visible_to(caller).filter(pk=pk).exists():
        raise NotFound("no such insight", field="insight_id")
    record = MemoryRecord.objects.select_for_update().get(pk=pk)
    insight = Insight.objects.select_for_update().get(pk=pk)
    insight.record = record
    return insight


def _back_to_pending(caller: Caller, insight: Insight, change: str) -> None:
    """Waiting again: the record is private, and active if the review had archived it; what its owner has withdrawn
    meanwhile stays withdrawn."""
    revives = insight.state == InsightState.REJECTED
    insight.state, insight.changeset = InsightState.PENDING, None
    insight.reviewed_by, insight.reviewed_at, insight.review_notes = "", None, ""
    insight.applied_by, insight.applied_at = "", None
    insight.save()
    record = insight.record
    with revised(caller, record, change, ""):
        record.visibility = Visibility.PRIVATE
        if revives and record.status == Status.ARCHIVED:
            record.status = Status.ACTIVE


def review_again(*, caller: Caller, record: MemoryRecord) -> None:
    """What was approved is approved as it was read: a claim that its owner has changed since waits again. Part of the
    transaction that changed it. Raises Conflict while it is being applied."""
    insight = Insight.objects.select_for_update().filter(pk=record.pk, state=InsightState.APPROVED).first()
    if insight is None:
        return
    if insight.changeset_id:
        raise Conflict("is being applied to the catalog right now", field="id")
    insight.record = record
    _back_to_pending(caller, insight, "review_again")


# -- what applying and rolling back do to insights ------------------------------------------------------------


def claim(insight_ids: Iterable[UUID], changeset: Changeset) -> None:
    """Binds approved insights to a changeset, inside its transaction. Who comes second is told."""
    ids = list(insight_ids)
    living = [Status.ACTIVE, Status.STALE]
    free = Insight.objects.filter(pk__in=ids, state=InsightState.APPROVED, changeset__isnull=True)
    free = free.filter(record__in=MemoryRecord.objects.filter(pk__in=ids, status__in=living))
    if free.update(changeset=changeset) != len(ids):
        raise Conflict("somebody else is applying one of these insights, or has done so", field="insight_ids")


def release(changeset: Changeset) -> None:
    """Nothing was written after all: the insights are approved and free again."""
    Insight.objects.filter(changeset=changeset, state=InsightState.APPROVED).update(changeset=None)


def mark_applied(caller: Caller, changeset: Changeset) -> int:
    """The insights of an applied changeset are everybody's knowledge now; what they correct is superseded."""
    with transaction.atomic():
        bound = list(Insight.objects.select_for_update().filter(changeset=changeset, state=InsightState.APPROVED))
        for insight in bound:
            insight.record = MemoryRecord.objects.select_for_update().get(pk=insight.pk)
            insight.state, insight.applied_by, insight.applied_at = InsightState.APPLIED, caller.email, timezone.now()
            insight.save(update_fields=["state", "applied_by", "applied_at"])
            with revised(caller, insight.record, "apply", f"changeset {changeset.pk.hex}"):
                insight.record.visibility = Visibility.EVERYONE
            if insight.replaces_id:
                chains.take_place(caller=caller, record=insight.record, predecessor_id=insight.replaces_id)
    return len(bound)


def return_to_review(caller: Caller, changeset: Changeset) -> int:
    """After a roll-back: pending and private again, and what they had superseded is active again."""
    with transaction.atomic():
        bound = list(Insight.objects.select_for_update().filter(changeset=changeset))
        for insight in bound:
            insight.record = MemoryRecord.objects.select_for_update().get(pk=insight.pk)
            chains.give_place_back(caller=caller, record=insight.record)
            _back_to_pending(caller, insight, "roll_back")
    return len(bound)
