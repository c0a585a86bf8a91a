"""Texts with the words of an erased memory, as cases of the admins' inbox."""

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
    undo_token_of,
)
from foundation.operations.errors import Invalid
from foundation.people.caller import Caller
from memories.models import SameWords, SameWordsDecision
from memories.writing import erasure, same_words
from memories.writing.text_places import places

CONFIRMED = "erase"  # the value of `confirm`


def _erase(caller: Caller, entry_id: str, seen: str, values: Mapping[str, str]) -> Decided:
    if values.get("confirm") != CONFIRMED:
        raise Invalid(
            gettext("is missing: the text is erased for good"),
            field="given.confirm",
            allowed=CONFIRMED,
        )
    erasure.erase_same_words(caller, entry_id=entry_id)
    return Decided(gettext("Erased for good."))


def _leave(caller: Caller, entry_id: str, seen: str, values: Mapping[str, str]) -> Decided:
    entry = same_words.leave(caller, entry_id=entry_id)
    return Decided(gettext("The text stays, because its author wrote it independently."), undo_token_of(entry))


class SameWordsCases(CaseKind):
    name = "same_words"
    title = gettext_lazy("Texts with the same words")
    label = gettext_lazy("Text with the same words")
    is_for_role = True
    waiting_since = "found_at"
    verdicts = (
        CaseVerdict("leave", gettext_lazy("Leave it"), _leave, key="l", takes_many=True),
        CaseVerdict("erase", gettext_lazy("Erase this, too"), _erase, fields=("confirm",)),
    )

    def is_for(self, caller: Caller) -> bool:
        return caller.is_admin

    def waiting(self, caller: Caller) -> QuerySet[SameWords]:
        rows = SameWords.objects.filter(decision=SameWordsDecision.OPEN).select_related("tombstone")
        return rows if caller.is_admin else rows.none()

    def cases(self, caller: Caller, rows: Sequence[SameWords]) -> list[Case]:
        kept = {name for name, place in places().items() if place.changed_by}
        found = []
        for entry, text in same_words.look_at_all(caller, rows):
            names = ["leave"] if entry.place in kept or not text.text else ["leave", "erase"]
            found.append(Case(self, case_id(entry), entry.found_at, text.text, {"entry": entry, "text": text}, names))
        return found

    def past(self, caller: Caller) -> list[PastVerdict]:
        rows = SameWords.objects.exclude(decision=SameWordsDecision.OPEN).filter(decided_by=caller.email)
        entries = list(rows.select_related("tombstone").order_by("-decided_at", "pk")[:MAX_PAST])
        return [
            PastVerdict(
                found.text or gettext("The text is gone."),
                entry.get_decision_display(),
                entry.decided_at,
                undo_token_of(entry) if entry.decision == SameWordsDecision.LEFT else "",
            )
            for entry, found in same_words.look_at_all(caller, entries)
        ]

    def undo(self, caller: Caller, undo_token: str) -> None:
        same_words.require_admin(caller)
        same_words.reopen(caller, entry_id=decided_row(SameWords.objects.all(), undo_token).pk)
