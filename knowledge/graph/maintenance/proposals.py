"""Proposals to split an entity or to end a near-duplicate observation, for admins to decide.

A proposal that was decided is not made again. The tools that find splits and duplicates leave out dismissed proposals.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy
from django_q.tasks import async_task

from foundation.operations.errors import Conflict, Degraded, Forbidden, NotFound
from foundation.people.caller import Caller
from knowledge.graph import graphs
from knowledge.graph.entities import live
from knowledge.graph.maintenance import splits
from knowledge.graph.maintenance.duplicates import DuplicatePair, pairs_of
from knowledge.graph.models import Entity, Graph, Observation, UpkeepKind, UpkeepProposal, UpkeepState
from memories.writing.bulk_actions import BulkAction

# Maximum number of entities of a graph that is checked while the admin waits. A worker checks larger graphs.
ENTITIES_AT_ONCE = 500


def check_graph(caller: Caller, *, graph: Graph) -> int | None:
    """Check a whole graph now and return the number of new proposals, or queue a large graph and return None."""
    _require_admin(caller)
    if live(graph).count() > ENTITIES_AT_ONCE:
        async_task("knowledge.graph.tasks.propose_maintenance_of", graph.pk.hex)
        return None
    return create_proposals(graph)


def create_proposals(graph: Graph, since: datetime | None = None) -> int:
    """Make the proposals that don't exist yet and return their number.

    With `since`, only entities that changed since then are searched for near-duplicates.
    """
    rows = [
        UpkeepProposal(entity=analysis.entity, kind=UpkeepKind.SPLIT, score=analysis.score)
        for analysis in splits.split_candidates(graph)
    ]
    entities = live(graph).filter(is_placeholder=False, **({"updated_at__gte": since} if since else {}))
    for entity in entities.defer("folded", "grams").iterator(chunk_size=200):
        rows += [_proposal(entity, pair) for pair in _pairs(entity)]
    # Existing proposals, decided or not, conflict with the new ones and are skipped.
    before = UpkeepProposal.objects.filter(entity__graph=graph).count()
    UpkeepProposal.objects.bulk_create(rows, ignore_conflicts=True)
    return UpkeepProposal.objects.filter(entity__graph=graph).count() - before


def _pairs(entity: Entity) -> list[DuplicatePair]:
    try:
        return pairs_of(entity).pairs
    except Degraded:  # embeddings are missing and can't be computed now; a later check of the entity tries again
        return []


def _proposal(entity: Entity, pair: DuplicatePair) -> UpkeepProposal:
    # Keep the longer text, or the older one if both have the same length.
    stays, ends = sorted((pair.first, pair.second), key=lambda row: (-len(row.text), row.number))
    return UpkeepProposal(entity=entity, kind=UpkeepKind.DUPLICATE, score=pair.score, ends=ends, stays=stays)


def accept(caller: Caller, *, proposal_id: UUID) -> UpkeepProposal:
    with transaction.atomic():
        proposal = _lock_open_proposal(caller, proposal_id)
        if proposal.kind == UpkeepKind.SPLIT:
            _split(proposal)
        else:
            _end(proposal)
        return _decide(proposal, UpkeepState.ACCEPTED, caller)


def _split(proposal: UpkeepProposal) -> None:
    with graphs.lock_graph(proposal.entity.graph) as graph:
        analysis = splits.analysis_of(proposal.entity)
        if proposal.entity.deleted_at or not analysis.needs_split:
            raise Conflict(gettext("the entity no longer needs a split: dismiss the proposal"), field="id")
        splits.split(graph, proposal.entity, proposal.entity, splits.parts_of(analysis))


def _end(proposal: UpkeepProposal) -> None:
    with graphs.lock_graph(proposal.entity.graph):
        pair = Observation.objects.filter(pk__in=[proposal.ends_id, proposal.stays_id], ended_at=None)
        if pair.count() < 2:
            raise Conflict(gettext("one of the two observations has ended: dismiss the proposal"), field="id")
        pair.exclude(pk__in=[proposal.stays_id]).update(ended_at=timezone.now())


def dismiss(caller: Caller, *, proposal_id: UUID) -> UpkeepProposal:
    with transaction.atomic():
        return _decide(_lock_open_proposal(caller, proposal_id), UpkeepState.DISMISSED, caller)


def reopen(caller: Caller, *, proposal_id: UUID) -> UpkeepProposal:
    """Undo a decision. An ended duplicate becomes active again.

    Raises Conflict if the proposal is open, or if its split was carried out.
    """
    with transaction.atomic():
        proposal = _lock_proposal(caller, proposal_id)
        if proposal.state == UpkeepState.OPEN:
            raise Conflict(gettext("is already open"), field="id")
        if proposal.state == UpkeepState.ACCEPTED:
            if proposal.kind == UpkeepKind.SPLIT:
                raise Conflict(gettext("a split can't be undone here: move its observations in the graph"), field="id")
            with graphs.lock_graph(proposal.entity.graph):
                Observation.objects.filter(pk__in=[proposal.ends_id]).update(ended_at=None)
        return _decide(proposal, UpkeepState.OPEN, caller)


def _lock_open_proposal(caller: Caller, proposal_id: UUID) -> UpkeepProposal:
    proposal = _lock_proposal(caller, proposal_id)
    if proposal.state != UpkeepState.OPEN:
        raise Conflict(gettext("is already %(state)s") % {"state": proposal.state}, field="id")
    return proposal


def _lock_proposal(caller: Caller, proposal_id: UUID) -> UpkeepProposal:
    _require_admin(caller)
    rows = UpkeepProposal.objects.select_for_update(of=("self",)).select_related("entity__graph")
    proposal = rows.filter(pk=proposal_id).first()
    if proposal is None:
        raise NotFound(gettext("no such proposal"), field="id")
    return proposal


def _decide(proposal: UpkeepProposal, state: UpkeepState, caller: Caller) -> UpkeepProposal:
    proposal.state = state
    proposal.decided_by = caller.email
    proposal.decided_at = None if state == UpkeepState.OPEN else timezone.now()
    proposal.save(update_fields=["state", "decided_at", "decided_by"])
    return proposal


def _require_admin(caller: Caller) -> None:
    if not caller.is_admin:
        raise Forbidden(gettext("only admins can maintain the graphs of others"))


def _open(caller: Caller, rows: QuerySet[UpkeepProposal]) -> QuerySet[UpkeepProposal]:
    return rows.filter(state=UpkeepState.OPEN)


def _decided(caller: Caller, rows: QuerySet[UpkeepProposal]) -> QuerySet[UpkeepProposal]:
    return rows.exclude(state=UpkeepState.OPEN)


PROPOSAL_ACTIONS = {
    "accept_upkeep": BulkAction(
        lambda caller, pk, entered: accept(caller, proposal_id=pk),
        title=gettext_lazy("Accept"),
        done=gettext_lazy("Accepted"),
        description=gettext_lazy(
            "Ends the duplicate, which can be undone, or splits the entity by its current topics, which can't be "
            "undone."
        ),
        inverse="reopen_upkeep",
        kind="upkeep",
        offered=_open,
    ),
    "dismiss_upkeep": BulkAction(
        lambda caller, pk, entered: dismiss(caller, proposal_id=pk),
        title=gettext_lazy("Dismiss"),
        done=gettext_lazy("Dismissed"),
        description=gettext_lazy(
            "Changes nothing in the graph. The proposal is not made again. Tools that list splits or duplicates leave "
            "it out."
        ),
        inverse="reopen_upkeep",
        kind="upkeep",
        offered=_open,
    ),
    "reopen_upkeep": BulkAction(
        lambda caller, pk, entered: reopen(caller, proposal_id=pk),
        title=gettext_lazy("Open again"),
        done=gettext_lazy("Opened again"),
        description=gettext_lazy(
            "Undoes the decision. An ended duplicate becomes active again. A split can't be undone."
        ),
        kind="upkeep",
        offered=_decided,
    ),
}
