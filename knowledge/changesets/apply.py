"""Applying approved insights to the catalog.

How each write is sent and its outcome kept is in sending.py, the way back in rollback.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from knowledge.catalog import entity_view
from knowledge.catalog.current import get_catalog
from knowledge.catalog.interface import Catalog, Run
from knowledge.catalog.json_patch import ABSENT
from knowledge.changesets.change_request import Request
from knowledge.changesets.planning import Planned, plan
from knowledge.changesets.writes import DONE, CatalogWrite, catalog_of, delivery_queue_of, exclusive
from knowledge.freshness import comparison
from knowledge.insights.lifecycle import claim, mark_applied, release, require_curator, require_curator_of
from knowledge.models import Change, ChangeOutcome, Changeset, ChangesetState, Insight, InsightState
from knowledge.operations import Apply
from memories.contract.errors import Conflict, Forbidden, NotFound
from memories.contract.fields import Id
from memories.contract.operations import validate
from memories.identity.caller import Caller
from memories.models import MemoryRecord, Status
from memories.outbox.delivery import deliver


@dataclass(frozen=True)
class Preview:
    """What applying would do; nothing was written."""

    entity_urn: str
    planned: list[Planned]
    entities: Mapping[str, entity_view.EntityView]  # the entity as the catalog has it now


@dataclass(frozen=True)
class Applied:
    changeset: Changeset
    changes: list[Change]
    insights_marked: int = 0


# -- apply -------------------------------------------------------------------------------------------------


def preview(operation: Apply, *, caller: Caller) -> Preview:
    """The changes with what stands at each path now. The same checks as apply."""
    urn, requests, bound = _checked(caller, operation)
    catalog = get_catalog()
    planned = plan(catalog, urn, requests, caller.email, "preview", authors_of(bound))
    return Preview(urn, planned, {urn: entity_view.load_entity(catalog, urn)} if urn else {})


def apply(operation: Apply, *, caller: Caller) -> Applied:
    """Writes the changes for these approved insights. What fails half-way leaves a partial changeset, which can
    be resumed or rolled back. Raises Conflict if somebody else is applying one of the insights."""
    urn, requests, bound = _checked(caller, operation)
    catalog = get_catalog()
    changeset = Changeset(
        entity_urn=urn,
        persona=bound[0].record.persona,
        personas=sorted({record.persona for insight in bound for record in _sides(insight)}),
        catalog=catalog.name,
        insight_ids=[insight.pk.hex for insight in bound],
        applied_by=caller.email,
    )
    planned = plan(catalog, urn, requests, caller.email, changeset.pk.hex, authors_of(bound))
    with transaction.atomic():
        changeset.save(force_insert=True)
        Change.objects.bulk_create([_row(changeset, position, change) for position, change in enumerate(planned)])
        claim([insight.pk for insight in bound], changeset)
    return _carry_out(caller, catalog, changeset)


def resume(*, caller: Caller, changeset_id: UUID | str) -> Applied:
    """Goes on with an interrupted or partial changeset; what landed already is not written again."""
    require_curator(caller)
    changeset = get_changeset(caller, changeset_id)
    if changeset.state not in (ChangesetState.PLANNED, ChangesetState.PARTIAL):
        raise Conflict(f"is {changeset.state}: there is nothing to resume", field="changeset_id")
    catalog = catalog_of(changeset)
    delivery_queue_of(changeset).retry()
    return _carry_out(caller, catalog, changeset)


def get_changeset(caller: Caller, changeset_id: UUID | str) -> Changeset:
    pk = validate(Id, changeset_id, "changeset_id")
    changeset = Changeset.objects.visible_to(caller).filter(pk=pk).first()
    if changeset is None:
        raise NotFound("no such changeset", field="changeset_id")
    return changeset


def _checked(caller: Caller, operation: Apply) -> tuple[str, list[Request], list[Insight]]:
    require_curator(caller)
    ids = list(dict.fromkeys(operation.insight_ids))
    bound = list(Insight.objects.visible_to(caller).filter(pk__in=ids).select_related("record", "replaces"))
    if len(bound) != len(ids):
        raise NotFound(f"{len(ids) - len(bound)} of these insights do not exist", field="insight_ids")
    if wrong := [insight for insight in bound if insight.state != InsightState.APPROVED]:
        states = ", ".join(f"{insight.pk.hex} is {insight.state}" for insight in wrong[:5])
        raise Conflict(f"only approved insights are applied: {states}", field="insight_ids")
    for insight in bound:
        require_curator_of(caller, insight.record)
        if insight.record.status not in (Status.ACTIVE, Status.STALE):
            raise Conflict(f"{insight.pk.hex} was {insight.record.status} by its owner", field="insight_ids")
        if insight.pending_edit:
            raise Conflict(f"an edit of {insight.pk.hex} waits: decide it first", field="insight_ids")
        _require_both_sides(caller, insight)
    return operation.entity_urn or "", operation.changes, bound


def _require_both_sides(caller: Caller, insight: Insight) -> None:
    """What replaces a memory is applied by who sees that memory and curates for its persona."""
    replaced = insight.replaces
    if replaced is None:
        return
    sees = MemoryRecord.objects.visible_to(caller).filter(pk=replaced.pk).exists()
    if not sees or not caller.can_review_for(replaced.persona):
        raise Forbidden(
            f"{insight.pk.hex} replaces a memory that you may not decide on: a curator of its persona who can see it "
            "has to apply it",
            field="insight_ids",
        )


def _sides(insight: Insight) -> list[MemoryRecord]:
    return [insight.record, *([insight.replaces] if insight.replaces else [])]


def authors_of(bound: Sequence[Insight]) -> list[str]:
    return sorted({insight.record.created_by for insight in bound})


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


def _carry_out(caller: Caller, catalog: Catalog, changeset: Changeset) -> Applied:
    run = Run(changeset.run_id, changeset.applied_by, {"changeset": changeset.pk.hex})
    with exclusive(changeset), comparison.keep_baselines_current(changeset):
        ledger = delivery_queue_of(changeset)
        if ledger.open.exists():  # until it is settled: a kill leaves it so
            Changeset.objects.filter(pk=changeset.pk).update(state=ChangesetState.PARTIAL)
        for change in deliver(ledger, CatalogWrite(catalog, run)):
            if change.outcome not in DONE:
                break
        return _settle(caller, changeset)


def _settle(caller: Caller, changeset: Changeset) -> Applied:
    """The changeset's state from its changes' outcomes, and what follows for its insights."""
    changes = list(changeset.changes.all())
    outcomes = {change.outcome for change in changes}
    marked = 0
    changeset.error = next((change.error for change in changes if change.error), "")
    if outcomes <= set(DONE):
        changeset.state, changeset.error = ChangesetState.APPLIED, ""
        marked = mark_applied(caller, changeset)
    elif outcomes & {ChangeOutcome.LANDED, ChangeOutcome.SENDING}:
        changeset.state = ChangesetState.PARTIAL
    else:
        changeset.state = ChangesetState.FAILED
        release(changeset)
    changeset.finished_at = timezone.now()
    changeset.save(update_fields=["state", "error", "finished_at"])
    return Applied(changeset, changes, marked)
