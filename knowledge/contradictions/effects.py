"""Changes that verdicts on contradictions make, and the undo of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.utils.translation import gettext

from foundation.operations.errors import Conflict, Forbidden
from foundation.people.caller import Caller
from knowledge import extensions
from knowledge.insights import assignment, events
from knowledge.insights.waiting_edits import drop_edit
from knowledge.models import Insight, InsightState, Settlement
from memories import services
from memories.models import IN_USE, Category, MemoryRecord, Report, ReportVerdict, Source, Status, Visibility
from memories.models.index_job import Trigger
from memories.operations import Forget, ReportMemories, Rescope
from memories.retrieval import indexing
from memories.use import reports
from memories.writing import rescoping, staleness, undo
from memories.writing.revision import last_revision, save_new

MARK_FRESH = "the verdict on a contradiction was undone"


class EffectKind(StrEnum):
    NOTHING = "nothing"
    ARCHIVED = "archived"
    RESCOPED = "rescoped"
    MADE_STALE = "made_stale"
    REPORTED = "reported"
    CAPTURED = "captured"
    EDIT_PROPOSED = "edit_proposed"
    SCOPE_PROPOSED = "scope_proposed"


REVISING = (EffectKind.ARCHIVED, EffectKind.RESCOPED, EffectKind.MADE_STALE)
PROPOSALS = (EffectKind.REPORTED, EffectKind.EDIT_PROPOSED, EffectKind.SCOPE_PROPOSED)


@dataclass(frozen=True)
class VerdictEffect:
    """One change of a memory. If it is a proposal, somebody else has to decide about it."""

    record: str  # the memory's id, as hexadecimal digits
    kind: EffectKind
    is_proposal: bool = False
    is_to_undo: bool = True
    revision: int | None = None  # the one that it made, which its undo takes back; earlier verdicts have stored none

    def as_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"record": self.record, "done": self.kind.value}
        return value if self.revision is None else {**value, "revision": self.revision}

    @classmethod
    def of_json(cls, value: dict[str, Any]) -> VerdictEffect:
        return cls(value["record"], EffectKind(value["done"]), revision=value.get("revision"))


def _effect(record: MemoryRecord, kind: EffectKind) -> VerdictEffect:
    last = last_revision(record.pk) if kind in REVISING else None
    return VerdictEffect(
        record.pk.hex,
        kind,
        is_proposal=kind in PROPOSALS,
        is_to_undo=kind != EffectKind.NOTHING,
        revision=last.pk if last else None,
    )


def give_scope(caller: Caller, record: MemoryRecord, scope: str, reason: str) -> VerdictEffect:
    if record.scope == scope:
        return _effect(record, EffectKind.NOTHING)
    if not caller.can_edit_for(record.created_by):
        extensions.scope_proposed(record, caller)
        return _effect(record, EffectKind.SCOPE_PROPOSED)
    extensions.scope_proposal_ended(record.pk)
    changed = rescoping.rescope(caller, Rescope(record_id=record.pk, scope=scope, reason=reason))
    return _effect(record, EffectKind.EDIT_PROPOSED if changed.pending_message else EffectKind.RESCOPED)


def doubt(caller: Caller, record: MemoryRecord, reason: str, note: str) -> VerdictEffect:
    """Make a memory stale that nobody has found true, or report it to its owner."""
    if not caller.can_edit_for(record.created_by):
        return _report(caller, record, note)
    services.mark_stale(caller, record_id=record.pk, reason=reason)
    return _effect(record, EffectKind.MADE_STALE)


def retire(caller: Caller, record: MemoryRecord, reason: str, note: str) -> VerdictEffect:
    """Archive a memory that another text contradicts rightly, or report it to its owner."""
    if not caller.can_edit_for(record.created_by):
        return _report(caller, record, note)
    services.forget(caller, Forget(record_id=record.pk, reason=reason))
    return _effect(record, EffectKind.ARCHIVED)


def _report(caller: Caller, record: MemoryRecord, note: str) -> VerdictEffect:
    had_one = Report.objects.filter(record=record, by=caller.email, verdict=ReportVerdict.WRONG).exists()
    reports.report(caller, ReportMemories(wrong=[record.pk], note=note))
    # An earlier report of the person stays when the verdict is undone.
    return VerdictEffect(record.pk.hex, EffectKind.REPORTED, is_proposal=True, is_to_undo=not had_one)


def propose_description(caller: Caller, record: MemoryRecord, urn: str, column: str) -> VerdictEffect:
    """Propose to describe an entity with the text of a memory. A curator decides.

    Raises Forbidden unless the caller may change the memory: the proposal repeats its text. If the owner has proposed
    this text already, nothing is done.
    """
    if not caller.can_edit_for(record.created_by):
        raise Forbidden(
            gettext("is about a memory of another user: only its owner or an admin can propose it for the catalog"),
            field="verdict",
        )
    own = Insight.objects.filter(record__created_by=record.created_by, record__content_key=record.content_key)
    own = own.filter(record__status__in=IN_USE)  # one that was withdrawn waits for nobody
    if own.exclude(state__in=[InsightState.SUPERSEDED, InsightState.REJECTED]).exists():
        return _effect(record, EffectKind.NOTHING)
    proposal = MemoryRecord(
        created_by=record.created_by,
        persona=record.persona,
        visibility=Visibility.PRIVATE,
        content=record.content,
        language=record.language,
        category=record.category if record.category != Category.GENERAL else Category.BUSINESS_CONTEXT,
        confidence=record.confidence,
        source=record.source if record.source != Source.NOTE else Source.USER,
        entity_urns=[urn],
        scope=record.scope,
    )
    save_new(proposal)
    target = f"column:{column}" if column else ""
    action = {"action_type": "update_description", "target": target, "detail": record.content}
    insight = Insight(record=proposal, beside=record, wanted_visibility=record.visibility, suggested_actions=[action])
    assignment.assign(insight)
    insight.save(force_insert=True)
    events.announce(events.CAPTURED, insight, by=caller.email, to=[])
    return _effect(proposal, EffectKind.CAPTURED)


def index_proposals(done: Iterable[VerdictEffect]) -> None:
    """Let workers embed the memories that a verdict has created. Call it after the transaction."""
    if ids := [UUID(effect.record) for effect in done if effect.kind == EffectKind.CAPTURED]:
        indexing.enqueue("memory", ids, Trigger.WRITE)


# -- undo -------------------------------------------------------------------------------------------------------


def revert(caller: Caller, effect: VerdictEffect, settlement: Settlement) -> None:
    """Revert an effect of a verdict. Raises Conflict if the memory has changed since."""
    record_id = UUID(effect.record)
    match effect.kind:
        case EffectKind.ARCHIVED:
            undo.undo(caller, record_id=record_id, change="forget", revision=effect.revision)
        case EffectKind.RESCOPED:
            undo.undo(caller, record_id=record_id, change="rescope", revision=effect.revision)
        case EffectKind.MADE_STALE:
            _mark_fresh(caller, record_id, effect.revision)
        case EffectKind.REPORTED:
            reports.withdraw_wrong(record_id, by=settlement.by, since=settlement.at)
        case EffectKind.CAPTURED:
            _withdraw_insight(caller, record_id)
        case EffectKind.EDIT_PROPOSED:
            _withdraw_edit(caller, record_id)
        case EffectKind.SCOPE_PROPOSED:
            extensions.scope_proposal_ended(record_id)


def _mark_fresh(caller: Caller, record_id: UUID, revision: int | None) -> None:
    last = last_revision(record_id)
    if last is None or last.change != "mark_stale" or last.status != Status.ACTIVE:
        raise _changed()
    if revision is not None and last.pk != revision:
        raise _changed()
    staleness.mark_fresh(caller, record_id=record_id, reason=MARK_FRESH)


def _withdraw_insight(caller: Caller, record_id: UUID) -> None:
    insight = Insight.objects.select_for_update().filter(pk=record_id).first()
    if insight is None or insight.state != InsightState.PENDING or last_revision(record_id) is not None:
        raise _changed()
    services.forget(caller, Forget(record_id=record_id))


def _withdraw_edit(caller: Caller, record_id: UUID) -> None:
    insight = Insight.objects.select_for_update().filter(pk=record_id).first()
    if insight is None or set(insight.pending_edit) != {"scope"} or insight.edit_by != caller.email:
        raise _changed()
    drop_edit(insight)


def _changed() -> Conflict:
    return Conflict(gettext("was changed since then and can no longer be undone"), field="settlement_id")
