"""Proposed merges of similar memories as cases of the inbox."""

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
    decided_row,
    parse_case_id,
    undo_token_of,
)
from foundation.people.caller import Caller
from memories.conversation.consolidation import merging
from memories.conversation.models import MergeProposal, MergeState


def _accept(caller: Caller, case_id: str, seen: str, values: Mapping[str, str]) -> Decided:
    proposal = merging.accept(caller, proposal_id=parse_case_id(case_id), seen=seen)
    text = gettext("Merged. The older memory now has the merged text. The newer memory is archived.")
    return Decided(text, undo_token_of(proposal), (proposal.correction_id or proposal.target_id).hex)


def _dismiss(caller: Caller, case_id: str, seen: str, values: Mapping[str, str]) -> Decided:
    proposal = merging.dismiss(caller, proposal_id=parse_case_id(case_id))
    return Decided(gettext("Both memories are kept as they are."), undo_token_of(proposal))


class MergeCases(CaseKind):
    name = "merge"
    title = gettext_lazy("Possible duplicates")
    undo_tool = "memory_manage"
    undo_command = "update"
    label = gettext_lazy("Possible duplicate")
    verdicts = (
        CaseVerdict(
            "accept",
            gettext_lazy("Merge"),
            _accept,
            key="a",
            takes_many=True,
            tool="memory_manage",
            command="supersede",
        ),
        CaseVerdict("dismiss", gettext_lazy("Keep both"), _dismiss, key="d", takes_many=True),
    )

    def waiting(self, caller: Caller) -> QuerySet[MergeProposal]:
        return merging.waiting(caller)

    def cases(self, caller: Caller, rows: Sequence[MergeProposal]) -> list[Case]:
        states = merging.states(rows)
        return [Case(self, row.pk.hex, row.created_at, row.text, row, seen=states[row.pk]) for row in rows]

    def past(self, caller: Caller) -> list[PastVerdict]:
        rows = merging.merges_of(caller).exclude(state=MergeState.PROPOSED).order_by("-decided_at", "pk")
        return [
            PastVerdict(row.text, row.get_state_display(), row.decided_at, undo_token_of(row), row.target_id.hex)
            for row in rows[:MAX_PAST]
        ]

    def undo(self, caller: Caller, undo_token: str) -> None:
        merging.undo(caller, proposal_id=decided_row(merging.merges_of(caller), undo_token).pk)
