"""Proposed maintenance of graphs as cases of the admins' inbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db.models import QuerySet
from django.utils.translation import gettext, gettext_lazy

from foundation.cases.kinds import (
    MAX_PAST,
    Case,
    CaseKind,
    CaseVerdict,
    Decided,
    PastVerdict,
    case_id,
    decided_row,
    parse_case_id,
    undo_token_of,
)
from foundation.people.caller import Caller
from knowledge.graph.maintenance import proposals
from knowledge.graph.models import UpkeepKind, UpkeepProposal, UpkeepState


def _accept(caller: Caller, given_id: str, seen: str, values: Mapping[str, str]) -> Decided:
    proposal = proposals.accept(caller, proposal_id=parse_case_id(given_id))
    if proposal.kind == UpkeepKind.SPLIT:
        return Decided(gettext("The entity was split. Its observations can be moved back in the graph."))
    return Decided(gettext("The duplicate has ended."), undo_token_of(proposal))


def _dismiss(caller: Caller, given_id: str, seen: str, values: Mapping[str, str]) -> Decided:
    proposal = proposals.dismiss(caller, proposal_id=parse_case_id(given_id))
    return Decided(gettext("Dismissed. The graph is as it was."), undo_token_of(proposal))


class UpkeepCases(CaseKind):
    name = "upkeep"
    title = gettext_lazy("Graph maintenance")
    label = gettext_lazy("Graph maintenance")
    is_for_role = True
    verdicts = (
        CaseVerdict("accept", gettext_lazy("Accept"), _accept, key="a", takes_many=True),
        CaseVerdict("dismiss", gettext_lazy("Dismiss"), _dismiss, key="d", takes_many=True),
    )

    def is_for(self, caller: Caller) -> bool:
        return caller.is_admin

    def waiting(self, caller: Caller) -> QuerySet[UpkeepProposal]:
        return self._rows(caller).filter(state=UpkeepState.OPEN)

    def cases(self, caller: Caller, rows: Sequence[UpkeepProposal]) -> list[Case]:
        return [Case(self, case_id(row), row.created_at, str(row), row) for row in rows]

    def past(self, caller: Caller) -> list[PastVerdict]:
        rows = self._rows(caller).exclude(state=UpkeepState.OPEN).filter(decided_by=caller.email)
        return [
            PastVerdict(
                str(row),
                row.get_state_display(),
                row.decided_at,
                "" if (row.state, row.kind) == (UpkeepState.ACCEPTED, UpkeepKind.SPLIT) else undo_token_of(row),
            )
            for row in rows.order_by("-decided_at", "pk")[:MAX_PAST]
        ]

    def undo(self, caller: Caller, undo_token: str) -> None:
        proposals.reopen(caller, proposal_id=decided_row(self._rows(caller), undo_token).pk)

    def _rows(self, caller: Caller) -> QuerySet[UpkeepProposal]:
        rows = UpkeepProposal.objects.select_related("entity__graph", "ends", "stays")
        return rows if caller.is_admin else rows.none()
