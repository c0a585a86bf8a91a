"""Insights: captured, edited, applied, returned. The review state and its memory always move together; what curators
decide is in decisions.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from analysis import findings
from knowledge.changes.change_types import clean_request
from knowledge.models import Changeset, Insight, InsightState
from knowledge.queries import may_curate
from memories import services, validation
from memories.access import Caller
from memories.contract.errors import Conflict, Forbidden, Invalid, NotFound, check_choice, check_count
from memories.models import Category, MemoryRecord, Source, Status, Visibility
from memories.retrieval.similar import Similar
from memories.writing import chains
from memories.writing.revising import revised

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
    if not caller.curates_for(record.persona):
        raise Forbidden(f"belongs to the persona {record.persona}: its curators decide", field="insight_id")


def require_curator(caller: Caller) -> None:
    if not may_curate(caller):
        raise Forbidden("only curators review and apply; ask an admin for the group Curators")


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
        insight = locked_insight(caller, insight_id)
        if not caller.acts_for(insight.record.created_by):
            require_curator_of(caller, insight.record)
        if insight.state != InsightState.PENDING:
            raise Conflict(f"is {insight.state}: only a pending insight is edited", field="insight_id")
        is_new_text = cleaned.get("content", insight.record.content) != insight.record.content
        with revised(caller, insight.record, "edit", "edited in review"):
            for name, value in cleaned.items():
                setattr(insight.record, name, value)
            if is_new_text:
                insight.record.metadata = services.written_by(caller, insight.record, insight.record.metadata)
        if actions is not None:
            insight.suggested_actions = actions
            insight.save(update_fields=["suggested_actions"])
    services.index_now(caller, insight.record)
    return insight


def locked_insight(caller: Caller, insight_id: UUID | str) -> Insight:
    """The insight and its record, both locked, if the caller sees it."""
    pk = validation.clean_id(insight_id, "insight_id")
    if not Insight.objects.visible_to(caller).filter(pk=pk).exists():
        raise NotFound("no such insight", field="insight_id")
    record = MemoryRecord.objects.select_for_update().get(pk=pk)
    insight = Insight.objects.select_for_update().get(pk=pk)
    insight.record = record
    return insight


def back_to_pending(caller: Caller, insight: Insight, change: str) -> None:
    """Waiting again: the record is private, and active if the review had archived it; what its owner has withdrawn
    meanwhile stays withdrawn."""
    revives = insight.state == InsightState.REJECTED
    insight.state, insight.changeset = InsightState.PENDING, None
    insight.reviewed_by, insight.reviewed_at, insight.review_notes = "", None, ""
    insight.applied_by, insight.applied_at = "", None
    insight.pending_edit, insight.edit_by, insight.edit_at = {}, "", None
    insight.save()
    record = insight.record
    with revised(caller, record, change, ""):
        record.visibility = Visibility.PRIVATE
        if revives and record.status == Status.ARCHIVED:
            record.status = Status.ACTIVE


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
            back_to_pending(caller, insight, "roll_back")
    return len(bound)
