"""Contradictions as cases of the inbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from django.db.models import QuerySet
from django.utils.translation import gettext, gettext_lazy

from foundation.cases.kinds import MAX_PAST, Case, CaseKind, CaseVerdict, Decided, PastVerdict
from foundation.people.caller import Caller
from knowledge.contradictions import queries, verdicts
from knowledge.contradictions.operations import GiveVerdict, UndoSettlement
from knowledge.contradictions.queries import ShownPair
from knowledge.models import Contradiction, PairVerdict, Settlement, SettlementState
from memories.models import MemoryRecord
from memories.validity.scopes.choices import choices
from memories.validity.scopes.names import PERSONA

KEYS = {PairVerdict.FIRST: "1", PairVerdict.SECOND: "2", PairVerdict.NEITHER: "0", PairVerdict.BOTH: ""}


@dataclass(frozen=True)
class PairSide:
    """A memory of a pair, with the scopes that it may get."""

    name: str  # first or second
    record: MemoryRecord
    scope: str  # label of the memory's scope, or ""
    chosen: str  # its scope, or the one that a colleague has proposed
    scopes: Mapping[str, str]  # scope → label


@dataclass(frozen=True)
class PairCase:
    """A pair, its memories, and what colleagues have proposed: each verdict with the labels of its scopes."""

    found: ShownPair
    sides: Sequence[PairSide]
    proposals: Sequence[tuple[Settlement, Sequence[str]]]


def _give(verdict: PairVerdict, caller: Caller, case_id: str, seen: str, values: Mapping[str, str]) -> Decided:
    operation = GiveVerdict.read({**values, "contradiction_id": case_id, "verdict": verdict.value})
    settlement = verdicts.give_verdict(caller, operation)
    if settlement.state == SettlementState.DECIDED:
        return Decided(gettext("Decided."), settlement.pk.hex)
    text = gettext("Proposed to the owner of the other memory. What you may change yourself is changed.")
    return Decided(text, settlement.pk.hex)


def _verdict(verdict: PairVerdict) -> CaseVerdict:
    scopes = ("first_scope", "second_scope") if verdict == PairVerdict.BOTH else ()
    # A verdict changes memories as this command does.
    return CaseVerdict(
        verdict.value,
        verdict.label,
        partial(_give, verdict),
        fields=("note", *scopes),
        key=KEYS[verdict],
        takes_many=verdict == PairVerdict.NEITHER,
        tool="memory_manage",
        command="update",
    )


class ContradictionCases(CaseKind):
    name = "contradiction"
    title = gettext_lazy("Contradictions")
    label = gettext_lazy("Contradiction")
    waiting_since = "found_at"
    undo_tool = "memory_manage"
    undo_command = "update"
    verdicts = tuple(
        _verdict(verdict) for verdict in (PairVerdict.FIRST, PairVerdict.SECOND, PairVerdict.NEITHER, PairVerdict.BOTH)
    )

    def waiting(self, caller: Caller) -> QuerySet[Contradiction]:
        return queries.contradictions(caller)

    def cases(self, caller: Caller, rows: Sequence[Contradiction]) -> list[Case]:
        known = choices(caller)
        return [
            Case(self, shown.pair.pk.hex, shown.pair.found_at, shown.pair.first.content, _pair_case(shown, known))
            for shown in queries.shown_pairs(rows)
        ]

    def past(self, caller: Caller) -> list[PastVerdict]:
        rows = queries.settlements(caller).filter(undone_at__isnull=True)[:MAX_PAST]
        return [PastVerdict(_texts(row), _label(row), row.at, row.pk.hex, row.first_id.hex) for row in rows]

    def undo(self, caller: Caller, undo_token: str) -> None:
        verdicts.undo(caller, UndoSettlement.read({"settlement_id": undo_token}))


def _texts(row: Settlement) -> str:
    return " ↔ ".join(memory.content for memory in (row.first, row.second) if memory)


def _label(row: Settlement) -> str:
    state = f" ({row.get_state_display()})" if row.state == SettlementState.PROPOSED else ""
    return f"{row.get_verdict_display()}{state}"


def _pair_case(shown: ShownPair, known: Mapping[str, str]) -> PairCase:
    memories = [memory for memory in (shown.pair.first, shown.pair.second) if memory]
    sides = []
    for name, memory in zip(("first", "second"), memories, strict=False):
        persona = f"{PERSONA}:{memory.persona}"
        scopes = {**known, persona: known.get(persona, memory.persona)}
        proposed = next(
            (getattr(row, f"{name}_scope") for row in shown.verdicts if row.verdict == PairVerdict.BOTH), ""
        )
        label = shown.scopes.get(memory.scope, "")
        sides.append(PairSide(name, memory, label, memory.scope or proposed, scopes))
    proposals = [
        (row, [shown.scopes[each] for each in (row.first_scope, row.second_scope) if each])
        for row in shown.verdicts
        if row.state == SettlementState.PROPOSED
    ]
    return PairCase(shown, sides, proposals)
