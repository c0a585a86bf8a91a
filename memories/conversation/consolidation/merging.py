"""Decisions about merge proposals: accept or dismiss merging two similar memories."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Conflict, NotFound
from foundation.people.caller import Caller
from memories import services
from memories.conversation.models import MergeProposal, MergeState
from memories.models import Status
from memories.models.record import readable_by
from memories.operations import Forget, Supersede
from memories.writing import quotations
from memories.writing.text_places import MEMORIES

REASON = "merged with a memory that says the same"


def waiting(caller: Caller) -> list[MergeProposal]:
    rows = MergeProposal.objects.filter(readable_by(caller, "record__"), state=MergeState.PROPOSED)
    rows = rows.filter(record__created_by=caller.email, record__status=Status.ACTIVE, target__status=Status.ACTIVE)
    return list(rows.select_related("record", "target")[:50])


def accept(caller: Caller, *, proposal_id: UUID) -> MergeProposal:
    """Replace the older memory by a correction with the merged text, and archive the newer one.

    The older memory is kept as it is if it already has the merged text. Both memories can be restored later.
    """
    with transaction.atomic():
        proposal = _decide(_open_proposal(caller, proposal_id), MergeState.ACCEPTED)
        services.forget(caller, Forget(record_id=proposal.record_id, reason=REASON))  # it may have the merged text
        text = proposal.text[:4_000]
        if text != proposal.target.content:
            merged = services.supersede(
                caller, Supersede.read({"record_id": proposal.target_id, "content": text, "reason": REASON})
            )
            quotations.note([proposal.target_id, proposal.record_id], MEMORIES, merged.record.pk, whole=True)
    return proposal


def dismiss(caller: Caller, *, proposal_id: UUID) -> MergeProposal:
    """Keep both memories as they are. Their merge is not proposed again."""
    return _decide(_open_proposal(caller, proposal_id), MergeState.DISMISSED)


def _open_proposal(caller: Caller, proposal_id: UUID) -> MergeProposal:
    proposal = MergeProposal.objects.select_related("record", "target").filter(pk=proposal_id).first()
    if proposal is None or not caller.can_edit_for(proposal.record.created_by):
        raise NotFound(gettext("no such proposal"), field="id")
    if proposal.state != MergeState.PROPOSED:
        raise Conflict(gettext("is already %(state)s") % {"state": proposal.state}, field="id")
    return proposal


def _decide(proposal: MergeProposal, state: MergeState) -> MergeProposal:
    # The update succeeds only for the first of two concurrent decisions.
    row = MergeProposal.objects.filter(pk=proposal.pk, state=MergeState.PROPOSED)
    if not row.update(state=state, decided_at=timezone.now()):
        raise Conflict(gettext("was already decided"), field="id")
    proposal.state = state
    return proposal
