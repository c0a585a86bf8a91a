"""What happens in the review that somebody else should hear of. Whoever tells people registers here."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from knowledge.models import Decision, Insight
from memories.contract.registry import Registry

APPLIED, ROLLED_BACK = "applied", "rolled_back"  # the other kinds are DecisionKind's

# Called with the kind of news, the insight, who acted, the note, and whom it concerns; inside the transaction.
Listener = Callable[[str, Insight, str, str, list[str]], None]
LISTENERS: Registry[Listener] = Registry("listeners to the review")
# Called with a curator's decision against what another one had approved.
ON_OVERTURN: Registry[Callable[[Insight, Decision], None]] = Registry("overturned decisions")


def tell(insight: Insight, decision: Decision, *, to: Iterable[str]) -> None:
    """A word of the review to those whom it concerns; nobody hears of their own."""
    if decision.overturns:
        for on_overturned in ON_OVERTURN.values():
            on_overturned(insight, decision)
    announce(decision.kind, insight, by=decision.by, notes=decision.notes, to=to)


def announce(kind: str, insight: Insight, *, by: str, notes: str = "", to: Iterable[str]) -> None:
    people = sorted({email for email in to if email and email != by})
    for listen in LISTENERS.values():
        listen(kind, insight, by, notes, people)
