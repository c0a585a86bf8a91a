"""Splits and near-duplicates for an admin to decide. What was decided is not proposed again, and the tools leave out
what was dismissed."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django_q.tasks import async_task

from knowledge.graph import graphs
from knowledge.graph.entities import live
from knowledge.graph.maintenance import splits
from knowledge.graph.maintenance.duplicates import Pair, pairs_of
from knowledge.graph.models import Entity, Graph, Observation, UpkeepKind, UpkeepProposal, UpkeepState
from memories.contract.errors import Conflict, Degraded, Forbidden, NotFound
from memories.identity.caller import Caller
from memories.writing.bulk_actions import BulkAction

ENTITIES_AT_ONCE = 500  # that somebody waits for


def look(*, caller: Caller, graph: Graph) -> int | None:
    """Looks through a whole graph; returns how many proposals are new, or None for a large one, which a worker does."""
    _require_admin(caller)
    if live(graph).count() > ENTITIES_AT_ONCE:
        async_task("knowledge.graph.tasks.propose_maintenance_of", graph.pk.hex)
        return None
    return find(graph)


def find(graph: Graph, since: datetime | None = None) -> int:
    """Proposes what was not proposed before; near-duplicates of entities that changed since then."""
    rows = [
        UpkeepProposal(entity=analysis.entity, kind=UpkeepKind.SPLIT, score=analysis.score)
        for analysis in splits.split_candidates(graph)
    ]
    entities = live(graph).filter(is_placeholder=False, **({"updated_at__gte": since} if since else {}))
    for entity in entities.defer("folded", "grams").iterator(chunk_size=200):
        rows += [_proposal(entity, pair) for pair in _pairs(entity)]
    before = UpkeepProposal.objects.filter(entity__graph=graph).count()
    UpkeepProposal.objects.bulk_create(rows, ignore_conflicts=True)
    return UpkeepProposal.objects.filter(entity__graph=graph).count() - before


def _pairs(entity: Entity) -> list[Pair]:
    try:
        return pairs_of(entity).pairs
    except Degraded:  # without vectors there is nothing to compare; the next run looks again
        return []


def _proposal(entity: Entity, pair: Pair) -> UpkeepProposal:
    """The longer text stays; of two as long, the older."""
    stays, ends = sorted((pair.first, pair.second), key=lambda row: (-len(row.text), row.number))
    return UpkeepProposal(entity=entity, kind=UpkeepKind.DUPLICATE, score=pair.score, ends=ends, stays=stays)


def accept(*, caller: Caller, proposal_id: UUID) -> UpkeepProposal:
    """Splits the entity by its topics of now, or ends the duplicate."""
    with transaction.atomic():
        proposal = _open_proposal(caller, proposal_id)
        if proposal.kind == UpkeepKind.SPLIT:
            _split(proposal)
        else:
            _end(proposal)
        return _decide(proposal, UpkeepState.ACCEPTED, caller)


def _split(proposal: UpkeepProposal) -> None:
    with graphs.changing_one(proposal.entity.graph) as graph:
        analysis = splits.analysis_of(proposal.entity)
        if proposal.entity.deleted_at or not analysis.needs_split:
            raise Conflict("the entity needs no split any more: dismiss it", field="id")
        splits.split(graph, proposal.entity, proposal.entity, splits.parts_of(analysis))


def _end(proposal: UpkeepProposal) -> None:
    with graphs.changing_one(proposal.entity.graph):
        pair = Observation.objects.filter(pk__in=[proposal.ends_id, proposal.stays_id], ended_at=None)
        if pair.count() < 2:
            raise Conflict("one of the two has ended: dismiss it", field="id")
        pair.exclude(pk__in=[proposal.stays_id]).update(ended_at=timezone.now())


def dismiss(*, caller: Caller, proposal_id: UUID) -> UpkeepProposal:
    """All stays as it is."""
    with transaction.atomic():
        return _decide(_open_proposal(caller, proposal_id), UpkeepState.DISMISSED, caller)


def reopen(*, caller: Caller, proposal_id: UUID) -> UpkeepProposal:
    """Takes a decision back; an ended duplicate is said again. Raises Conflict for a split that was carried out."""
    with transaction.atomic():
        proposal = _locked(caller, proposal_id)
        if proposal.state == UpkeepState.OPEN:
            raise Conflict("is open", field="id")
        if proposal.state == UpkeepState.ACCEPTED:
            if proposal.kind == UpkeepKind.SPLIT:
                raise Conflict("a split is taken back in the graph: move its observations", field="id")
            with graphs.changing_one(proposal.entity.graph):
                Observation.objects.filter(pk__in=[proposal.ends_id]).update(ended_at=None)
        return _decide(proposal, UpkeepState.OPEN, caller)


def _open_proposal(caller: Caller, proposal_id: UUID) -> UpkeepProposal:
    proposal = _locked(caller, proposal_id)
    if proposal.state != UpkeepState.OPEN:
        raise Conflict(f"is {proposal.state} already", field="id")
    return proposal


def _locked(caller: Caller, proposal_id: UUID) -> UpkeepProposal:
    _require_admin(caller)
    rows = UpkeepProposal.objects.select_for_update(of=("self",)).select_related("entity__graph")
    proposal = rows.filter(pk=proposal_id).first()
    if proposal is None:
        raise NotFound("no such proposal", field="id")
    return proposal


def _decide(proposal: UpkeepProposal, state: UpkeepState, caller: Caller) -> UpkeepProposal:
    proposal.state, proposal.decided_by = state, caller.email
    proposal.decided_at = None if state == UpkeepState.OPEN else timezone.now()
    proposal.save(update_fields=["state", "decided_at", "decided_by"])
    return proposal


def _require_admin(caller: Caller) -> None:
    if not caller.is_admin:
        raise Forbidden("only an admin decides about the graphs of others")


PROPOSAL_ACTIONS = {
    "accept_upkeep": BulkAction(
        "Accepted",
        lambda caller, pk, words: accept(caller=caller, proposal_id=pk),
        inverse="reopen_upkeep",
        kind="upkeep",
    ),
    "dismiss_upkeep": BulkAction(
        "Dismissed",
        lambda caller, pk, words: dismiss(caller=caller, proposal_id=pk),
        inverse="reopen_upkeep",
        kind="upkeep",
    ),
    "reopen_upkeep": BulkAction(
        "Open again", lambda caller, pk, words: reopen(caller=caller, proposal_id=pk), kind="upkeep"
    ),
}
