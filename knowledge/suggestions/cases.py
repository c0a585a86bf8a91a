"""Suggestions as cases of the inbox."""

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
    undo_token_of,
)
from foundation.people.caller import Caller
from knowledge.models import Suggestion, SuggestionState
from knowledge.suggestions import decisions, queries
from knowledge.suggestions.operations import INSIGHT, MEMORY, Discard, Keep, NeverAgain, UndoDecisions


def _keep(caller: Caller, case_id: str, seen: str, values: Mapping[str, str]) -> Decided:
    return _kept(caller, case_id, values, MEMORY, gettext("Kept as a memory."))


def _propose(caller: Caller, case_id: str, seen: str, values: Mapping[str, str]) -> Decided:
    return _kept(caller, case_id, values, INSIGHT, gettext("Proposed. A curator will review it."))


def _kept(caller: Caller, case_id: str, values: Mapping[str, str], keep_as: str, message: str) -> Decided:
    kept = decisions.keep(caller, Keep.read({**values, "suggestion_id": case_id, "keep_as": keep_as}))
    message = gettext("It was there already.") if kept.existing else message
    return Decided(message, undo_token_of(kept.suggestion), kept.record.pk.hex)


def _discard(caller: Caller, case_id: str, seen: str, values: Mapping[str, str]) -> Decided:
    (suggestion,) = decisions.discard(caller, Discard.read({"suggestion_ids": [case_id]}))
    return Decided(gettext("Discarded."), undo_token_of(suggestion))


def _never(caller: Caller, case_id: str, seen: str, values: Mapping[str, str]) -> Decided:
    (suggestion,) = decisions.never_again(caller, NeverAgain.read({"suggestion_ids": [case_id]}))
    return Decided(gettext("Discarded. It and texts like it will not be suggested again."), undo_token_of(suggestion))


class SuggestionCases(CaseKind):
    name = "suggestion"
    title = gettext_lazy("Suggestions")
    label = gettext_lazy("Suggestion")
    verdicts = (
        CaseVerdict(
            "keep",
            gettext_lazy("Keep"),
            _keep,
            fields=("content", "visibility", "category"),
            key="a",
            tool="memory_manage",
            command="remember",
        ),
        CaseVerdict(
            "propose",
            gettext_lazy("Propose as insight"),
            _propose,
            fields=("content", "visibility", "category"),
            key="p",
            tool="capture_insight",
        ),
        CaseVerdict("discard", gettext_lazy("Discard"), _discard, key="d", takes_many=True),
        CaseVerdict("never", gettext_lazy("Never again"), _never, key="n", takes_many=True),
    )

    def waiting(self, caller: Caller) -> QuerySet[Suggestion]:
        return queries.waiting(caller)

    def cases(self, caller: Caller, rows: Sequence[Suggestion]) -> list[Case]:
        return [Case(self, row.pk.hex, row.created_at, row.text, row) for row in rows]

    def past(self, caller: Caller) -> list[PastVerdict]:
        decided = queries.suggestions(caller).exclude(state=SuggestionState.WAITING).order_by("-decided_at", "pk")
        return [
            PastVerdict(
                row.text,
                row.get_state_display(),
                row.decided_at,
                undo_token_of(row),
                row.record_id.hex if row.record_id else "",
            )
            for row in decided[:MAX_PAST]
        ]

    def undo(self, caller: Caller, undo_token: str) -> None:
        suggestion = decided_row(queries.suggestions(caller), undo_token)
        decisions.undo(caller, UndoDecisions(suggestion_ids=[suggestion.pk]))
