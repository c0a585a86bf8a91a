"""Proposed maintenance of graphs as cases of the admins' inbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext, gettext_lazy

from foundation.cases.kinds import Case, CaseKind, CaseVerdict, Given, PastVerdict, case_id
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from knowledge.graph.maintenance import proposals
from knowledge.graph.models import UpkeepKind, UpkeepProposal, UpkeepState

MAX_PAST = 10


def _accept(caller: Caller, given_id: str, values: Mapping[str, str]) -> Given:
    proposal = proposals.accept(caller, proposal_id=_id(given_id))
    if proposal.kind == UpkeepKind.SPLIT:
        return Given(gettext("The entity was split. Its observations can be moved back in the graph."))
    return Given(gettext("The duplicate has ended."), case_id(proposal))


def _dismiss(caller: Caller, given_id: str, values: Mapping[str, str]) -> Given:
    proposal = proposals.dismiss(caller, proposal_id=_id(given_id))
    return Given(gettext("Dismissed. The graph is as it was."), case_id(proposal))


def _id(text: str, field: str = "cases") -> UUID:
    pk: UUID = validate(Id, text, field)
    return pk


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
        names = [verdict.name for verdict in self.verdicts]
        return [Case(self, case_id(row), row.created_at, str(row), row, names) for row in rows]

    def past(self, caller: Caller) -> list[PastVerdict]:
        rows = self._rows(caller).exclude(state=UpkeepState.OPEN).filter(decided_by=caller.email)
        return [
            PastVerdict(
                str(row),
                row.get_state_display(),
                row.decided_at,
                "" if (row.state, row.kind) == (UpkeepState.ACCEPTED, UpkeepKind.SPLIT) else case_id(row),
            )
            for row in rows.order_by("-decided_at", "pk")[:MAX_PAST]
        ]

    def undo(self, caller: Caller, given: str) -> None:
        proposals.reopen(caller, proposal_id=_id(given, "verdicts"))

    def _rows(self, caller: Caller) -> QuerySet[UpkeepProposal]:
        rows = UpkeepProposal.objects.select_related("entity__graph", "ends", "stays")
        return rows if caller.is_admin else rows.none()
