"""Decisions about merge proposals: accept or dismiss merging two similar memories."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Conflict, NotFound
from foundation.people.caller import Caller
from memories import services
from memories.conversation.models import MergeProposal, MergeState
from memories.models import MemoryRevision, Status
from memories.models.record import readable_by
from memories.operations import Forget, Supersede
from memories.writing import quotations
from memories.writing.revision import last_revision
from memories.writing.seen import memory_versions, unchanged
from memories.writing.text_places import MEMORIES
from memories.writing.undo import undo as undo_change

MAX_TEXT = 4_000  # characters of a memory
BOTH = "+"  # between the tokens of two memories
REASON = "merged with a memory that says the same"


def merges_of(caller: Caller) -> QuerySet[MergeProposal]:
    """Return the proposals to merge memories of the caller, decided or not."""
    rows = MergeProposal.objects.filter(readable_by(caller, "record__"), record__created_by=caller.email)
    return rows.select_related("record", "target").defer("record__search", "target__search")


def waiting(caller: Caller) -> QuerySet[MergeProposal]:
    """Return the proposals that the caller may accept: of active memories that have the texts that were merged."""
    rows = merges_of(caller).filter(state=MergeState.PROPOSED)
    return rows.filter(record__status=Status.ACTIVE, target__status=Status.ACTIVE).exclude(_is_outdated())


def _is_outdated() -> Q:
    """Return the condition for proposals whose text repeats what a memory no longer says."""
    both = Q(record=OuterRef("record")) | Q(record=OuterRef("target"))
    later = MemoryRevision.objects.filter(both, valid_to__gt=OuterRef("created_at"))
    return Q(Exists(later.exclude(content=F("record__content"))))


def states(proposals: Sequence[MergeProposal]) -> dict[UUID, str]:
    """Return a token of the state of both memories of each proposal."""
    records = [record for proposal in proposals for record in (proposal.target, proposal.record)]
    versions = memory_versions(records)
    return {each.pk: f"{versions[each.target_id]}{BOTH}{versions[each.record_id]}" for each in proposals}


def accept(caller: Caller, *, proposal_id: UUID, seen: str = "") -> MergeProposal:
    """Replace the older memory by a correction with the merged text, and archive the newer one.

    The older memory is kept as it is if it already has the merged text. Raises Conflict if one of the memories has
    changed since the state of the token `seen`, or another text since the merge was proposed.
    """
    target_seen, _, record_seen = seen.partition(BOTH)
    with transaction.atomic(), ExitStack() as both:
        proposal = _decide(_open_proposal(caller, proposal_id), MergeState.ACCEPTED)
        both.enter_context(unchanged(caller, proposal.target_id, target_seen))
        both.enter_context(unchanged(caller, proposal.record_id, record_seen))
        if MergeProposal.objects.filter(_is_outdated(), pk=proposal.pk).exists():
            raise Conflict(gettext("one of the memories has another text since the merge was proposed"), field="id")
        services.forget(caller, Forget(record_id=proposal.record_id, reason=REASON))  # it may have the merged text
        text = proposal.text[:MAX_TEXT]
        if text != proposal.target.content:
            merged = services.supersede(
                caller, Supersede.read({"record_id": proposal.target_id, "content": text, "reason": REASON})
            )
            quotations.save_quotations([proposal.target_id, proposal.record_id], MEMORIES, merged.record.pk, whole=True)
            proposal.correction_id = merged.record.pk
            proposal.save(update_fields=["correction_id"])
    return proposal


def dismiss(caller: Caller, *, proposal_id: UUID) -> MergeProposal:
    """Keep both memories as they are. Their merge is not proposed again."""
    return _decide(_open_proposal(caller, proposal_id), MergeState.DISMISSED)


def undo(caller: Caller, *, proposal_id: UUID) -> MergeProposal:
    """Open a decided proposal again. After a merge, its correction is archived and both memories are active again.

    Raises Conflict if the proposal is open, or if one of the memories has changed since. Then nothing is undone.
    """
    with transaction.atomic():
        proposal = _proposal(caller, proposal_id)
        if proposal.state == MergeState.PROPOSED:
            raise Conflict(gettext("is already open"), field="id")
        if proposal.state == MergeState.ACCEPTED:
            _undo_merge(caller, proposal)
        row = MergeProposal.objects.filter(pk=proposal.pk, state=proposal.state)
        if not row.update(state=MergeState.PROPOSED, decided_at=None, correction_id=None):
            raise Conflict(gettext("was already decided"), field="id")
        proposal.state = MergeState.PROPOSED
    return proposal


def _undo_merge(caller: Caller, proposal: MergeProposal) -> None:
    target = proposal.target
    is_as_merged = target.superseded_by == proposal.correction_id
    if proposal.correction_id is None:  # the older memory had the merged text already
        is_as_merged = target.content == proposal.text[:MAX_TEXT] and target.status == Status.ACTIVE
    if not is_as_merged:
        raise Conflict(gettext("can't be undone: the older memory has changed since"), field="id")
    if proposal.correction_id:
        _undo_own_change(caller, proposal.target_id, "supersede")
    _undo_own_change(caller, proposal.record_id, "forget")


def _undo_own_change(caller: Caller, record_id: UUID, change: str) -> None:
    """Undo what a merge has done with a memory. Raises Conflict if that is not its last change."""
    merge = last_revision(record_id, change=change, reason=REASON)
    if merge is None:
        raise Conflict(gettext("was changed since then and can no longer be undone"), field="id")
    undo_change(caller, record_id=record_id, change=change, revision=merge.pk)


def _proposal(caller: Caller, proposal_id: UUID) -> MergeProposal:
    proposal = MergeProposal.objects.select_related("record", "target").filter(pk=proposal_id).first()
    if proposal is None or not caller.can_edit_for(proposal.record.created_by):
        raise NotFound(gettext("no such proposal"), field="id")
    return proposal


def _open_proposal(caller: Caller, proposal_id: UUID) -> MergeProposal:
    proposal = _proposal(caller, proposal_id)
    if proposal.state != MergeState.PROPOSED:
        raise Conflict(gettext("is already %(state)s") % {"state": proposal.state}, field="id")
    return proposal


def _decide(proposal: MergeProposal, state: MergeState) -> MergeProposal:
    # The update succeeds only for the first of two concurrent decisions.
    row = MergeProposal.objects.filter(pk=proposal.pk, state=MergeState.PROPOSED)
    now = timezone.now()
    if not row.update(state=state, decided_at=now):
        raise Conflict(gettext("was already decided"), field="id")
    proposal.state = state
    proposal.decided_at = now
    return proposal
