"""Application of approved insights to the catalog.

See delivery.py for sending a single write and saving its outcome, and rollback.py for undoing a changeset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import locks
from foundation.operations.errors import Conflict, Forbidden, NotFound
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from foundation.work import progress
from foundation.work.delivery import deliver
from knowledge.catalog import entity_view
from knowledge.catalog.current import get_catalog
from knowledge.catalog.interface import Catalog, WriteRun
from knowledge.catalog.json_patch import ABSENT
from knowledge.changesets import risk
from knowledge.changesets.change_request import CHANGE_TYPES, Request
from knowledge.changesets.delivery import DONE, CatalogWrite, catalog_of, delivery_queue_of, exclusive
from knowledge.changesets.planning import Planned, plan
from knowledge.freshness import own_writes
from knowledge.insights import events
from knowledge.insights.lifecycle import (
    bind,
    mark_applied,
    require_curator,
    require_curator_of,
    require_replaceable,
    unbind,
)
from knowledge.models import (
    Change,
    ChangeOutcome,
    Changeset,
    ChangesetApproval,
    ChangesetState,
    ChangesetVerdict,
    Insight,
    InsightState,
)
from knowledge.operations import Apply
from memories.models import IN_USE, MemoryRecord
from memories.validity.rules import require_valid_now


@dataclass(frozen=True)
class ChangesetPreview:
    """Changes that were planned but not written."""

    entity_urn: str
    planned: list[Planned]
    entities: Mapping[
        str, entity_view.EntityView
    ]  # the current entity by its URN; empty if the operation names no entity
    replaces: dict[str, str] = field(default_factory=dict)  # ids of insights → of the memories that they replace
    risks: list[risk.Risk] = field(default_factory=list)  # why a second curator has to approve it


@dataclass(frozen=True)
class Applied:
    changeset: Changeset
    changes: list[Change]
    insights_marked: int = 0
    notes: list[str] = field(default_factory=list)  # why memories were not superseded, or why it waits


# -- apply -------------------------------------------------------------------------------------------------


def preview(caller: Caller, operation: Apply) -> ChangesetPreview:
    """Validate the operation and plan its changes without writing anything.

    Unlike `apply`, this accepts insights that another changeset is applying.
    """
    urn, requests, insights = _validate(caller, operation)
    catalog = get_catalog()
    planned = plan(catalog, urn, requests, caller.email, "preview", authors_of(insights))
    replaces = {insight.pk.hex: insight.replaces_id.hex for insight in insights if insight.replaces_id}
    entities = {urn: entity_view.load_entity(catalog, urn)} if urn else {}
    return ChangesetPreview(urn, planned, entities, replaces, risk.assess(planned))


def apply(caller: Caller, operation: Apply) -> Applied:
    """Write the changes of approved insights to the catalog, and return the changeset with its changes.

    A risky changeset (risk.py) is stored, and waits for the approval of a second curator instead (approvals.py).
    If a write fails after another one succeeded, or if its outcome is unknown, the changeset is partial: it can be
    resumed or rolled back. If nothing was written, the changeset is failed, and the insights can be applied again.
    Raises Conflict if an insight is not approved or if another changeset is applying it.
    """
    urn, requests, insights = _validate(caller, operation)
    catalog = get_catalog()
    changeset = Changeset(
        entity_urn=urn,
        persona=insights[0].record.persona,
        personas=sorted({record.persona for insight in insights for record in _affected_records(insight)}),
        catalog=catalog.name,
        insight_ids=[insight.pk.hex for insight in insights],
        applied_by=caller.email,
    )
    planned = plan(catalog, urn, requests, caller.email, changeset.pk.hex, authors_of(insights))
    changeset.risks = risk.assess(planned)
    changes = [_row(changeset, position, change) for position, change in enumerate(planned)]
    if changeset.risks:
        changeset.state = ChangesetState.WAITING
    with transaction.atomic():
        changeset.save(force_insert=True)
        Change.objects.bulk_create(changes)
        bind(caller, insights, changeset)
        if changeset.risks:
            ChangesetApproval.objects.create(changeset=changeset, by=caller.email, verdict=ChangesetVerdict.APPROVED)
            events.announce_changeset(changeset, events.PROPOSED, by=caller.email)
            return Applied(changeset, changes, notes=risk.in_words(changeset.risks))
    return carry_out(caller, catalog, changeset)


def resume(caller: Caller, *, changeset_id: UUID | str) -> Applied:
    """Continue an interrupted or partial changeset. Writes that succeeded are not repeated.

    Raises Conflict or Forbidden if its insights can no longer be applied, for example because the author has archived
    one. Then the changeset can only be rolled back.
    """
    require_curator(caller)
    changeset = get_changeset(caller, changeset_id)
    if changeset.state not in (ChangesetState.PLANNED, ChangesetState.PARTIAL):
        raise Conflict(
            gettext("is %(state)s: there is nothing to resume") % {"state": changeset.state}, field="changeset_id"
        )
    catalog = catalog_of(changeset)
    bound = Insight.objects.filter(changeset=changeset, state=InsightState.APPROVED)
    check(caller, list(bound.select_related("record", "replaces")))
    delivery_queue_of(changeset).retry()
    return carry_out(caller, catalog, changeset)


def get_changeset(caller: Caller, changeset_id: UUID | str) -> Changeset:
    pk = validate(Id, changeset_id, "changeset_id")
    changeset = Changeset.objects.visible_to(caller).filter(pk=pk).first()
    if changeset is None:
        raise NotFound(gettext("no such changeset"), field="changeset_id")
    return changeset


def _validate(caller: Caller, operation: Apply) -> tuple[str, list[Request], list[Insight]]:
    require_curator(caller)
    ids = list(dict.fromkeys(operation.insight_ids))
    insights = list(Insight.objects.visible_to(caller).filter(pk__in=ids).select_related("record", "replaces"))
    if len(insights) != len(ids):
        raise NotFound(
            gettext("%(count)s of these insights do not exist") % {"count": len(ids) - len(insights)},
            field="insight_ids",
        )
    if not_approved := [insight for insight in insights if insight.state != InsightState.APPROVED]:
        states = ", ".join(f"{insight.pk.hex} is {insight.state}" for insight in not_approved[:5])
        raise Conflict(
            gettext("only approved insights can be applied: %(states)s") % {"states": states}, field="insight_ids"
        )
    check(caller, insights)
    return operation.entity_urn or _only_entity(insights, operation.changes), operation.changes, insights


def _only_entity(insights: Sequence[Insight], requests: Sequence[Request]) -> str:
    """Return the entity of the insights, if one of the changes needs an entity and there is no other."""
    urns = {urn for insight in insights for urn in insight.record.entity_urns}
    needs_entity = any(CHANGE_TYPES[request.change_type].kinds for request in requests)
    return urns.pop() if needs_entity and len(urns) == 1 else ""


def check(caller: Caller, insights: Sequence[Insight]) -> None:
    """Raise Conflict or Forbidden if the caller may not apply one of the insights now."""
    for insight in insights:
        require_curator_of(caller, insight.record)
        if insight.record.status not in IN_USE:
            raise Conflict(
                gettext(
                    "the memory of %(insight)s is %(status)s: its owner can restore it, or the changeset be declined"
                )
                % {"insight": insight.pk.hex, "status": insight.record.status},
                field="insight_ids",
            )
        require_valid_now(insight.record, "insight_ids")
        if insight.pending_edit:
            raise Conflict(
                gettext("an edit of %(insight)s is pending: decide on it first") % {"insight": insight.pk.hex},
                field="insight_ids",
            )
        _require_both_sides(caller, insight)
    require_replaceable(caller, insights)


def _require_both_sides(caller: Caller, insight: Insight) -> None:
    if insight.replaces_id is None:
        return
    # Looked up by its id: of a memory that the caller may not read, row-level security makes `replaces` None.
    replaced = MemoryRecord.objects.visible_to(caller).filter(pk=insight.replaces_id).first()
    if replaced is None or not caller.can_review_for(replaced.persona):
        raise Forbidden(
            gettext(
                "%(insight)s replaces a memory that you may not decide on. Only a curator of that "
                "memory's persona who can read that memory can apply this insight"
            )
            % {"insight": insight.pk.hex},
            field="insight_ids",
        )


def _affected_records(insight: Insight) -> list[MemoryRecord]:
    return [insight.record, *([insight.replaces] if insight.replaces else [])]


def authors_of(insights: Sequence[Insight]) -> list[str]:
    return sorted({insight.record.created_by for insight in insights})


def _row(changeset: Changeset, position: int, planned: Planned) -> Change:
    write = planned.step.write
    return Change(
        changeset=changeset,
        position=position,
        request=planned.request,
        change_type=planned.change_type,
        urn=write.urn,
        aspect=write.aspect,
        path=list(write.path),
        operation=write.operation,
        had_before=planned.before is not ABSENT,
        before=None if planned.before is ABSENT else planned.before,
        written=write.value,
        creates=planned.step.creates,
        outcome=ChangeOutcome.NOOP if planned.is_noop else ChangeOutcome.PLANNED,
    )


def carry_out(caller: Caller, catalog: Catalog, changeset: Changeset) -> Applied:
    """Make the open writes of a changeset, and save its state and those of its insights."""
    run = WriteRun(changeset.run_id, changeset.applied_by, {"changeset": changeset.pk.hex})
    with exclusive(changeset), own_writes.keep_baselines_current(changeset):
        queue = delivery_queue_of(changeset)
        if queue.open.exists():
            # Marked as partial now, because a crash before _save_outcome may leave some changes written.
            Changeset.objects.filter(pk=changeset.pk).update(state=ChangesetState.PARTIAL)
        total = queue.open.count()
        for number, change in enumerate(deliver(queue, CatalogWrite(catalog, run)), start=1):
            if change.outcome not in DONE:
                break
            if number < total:  # a call that is cancelled after its last write is complete, not partial
                progress.tell(number, total, f"Wrote {number} of {total} values to the catalog")
        locks.check()
        return _save_outcome(caller, changeset)


def _save_outcome(caller: Caller, changeset: Changeset) -> Applied:
    changes = list(changeset.changes.all())
    outcomes = {change.outcome for change in changes}
    marked = 0
    notes = list[str]()
    changeset.error = next((change.error for change in changes if change.error), "")
    if outcomes <= set(DONE):
        changeset.state = ChangesetState.APPLIED
        changeset.error = ""
        marked, notes = mark_applied(caller, changeset)
    elif outcomes & {ChangeOutcome.LANDED, ChangeOutcome.SENDING}:
        changeset.state = ChangesetState.PARTIAL
    else:
        changeset.state = ChangesetState.FAILED
        unbind(changeset)
    changeset.finished_at = timezone.now()
    changeset.save(update_fields=["state", "error", "finished_at"])
    return Applied(changeset, changes, marked, notes)
