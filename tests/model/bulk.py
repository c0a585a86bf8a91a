"""Bulk actions: a verb on several memories, one after the other in the order of their ids. Each is done or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from memories.writing.bulk_actions import UNCHANGED
from tests.model import memories, reviews
from tests.model.expected import ALLOWED, Expected, Last, Memory, Person
from tests.model.memories import Refusals

Rule = Callable[[Expected, Person, Memory], Refusals]
Effect = Callable[[Expected, Person, Memory], object]


@dataclass(frozen=True)
class Act:
    may: Rule
    effect: Effect
    change: str = ""  # the change of a memory's history that its undo takes back; "" for decisions on insights
    choice: str = ""


ACTS = {
    "forget": Act(memories.may_forget, memories.forget, "forget"),
    "verify": Act(memories.may_verify, memories.verify, "verify"),
    "share": Act(
        memories.may_share,
        lambda e, person, m: memories.share(e, person, m, "everyone"),
        "share",
        "everyone",
    ),
    "approve": Act(reviews.may_approve_as_seen, reviews.approve_as_seen),
    "reject": Act(reviews.may_reject, reviews.reject),
}


@dataclass
class Done:
    """A bulk action that was carried out. It can be undone once, by the person who started it."""

    act: str
    who: str
    names: list[str]  # of the memories that it changed
    last: dict[str, Last | None]  # of each of these memories, its change, which is the one that its undo takes back


def take_effect(
    e: Expected, person: Person, act: Act, names: Sequence[str], outcomes: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Change what is expected as the outcomes say, and return the changed memories, and outcomes that break a rule."""
    done, wrong = [], []
    for name in names:
        m = e.memories[name]
        refusals = act.may(e, person, m)
        problem = _wrong(name, refusals, outcomes[name])
        wrong += [problem] if problem else []
        if not outcomes[name] and not problem:
            act.effect(e, person, m)
            done.append(name)
    return done, wrong


def take_back(e: Expected, person: Person, done: Done, outcomes: Mapping[str, str]) -> list[str]:
    wrong = []
    act = ACTS[done.act]
    for name, outcome in outcomes.items():
        m = e.memories.get(name)
        if m is None:
            wrong += [] if outcome else [f"{name} was erased, so its undo must be refused"]
            continue
        refusals = memories.may_undo(e, person, m, act.change) if act.change else _may_return(e, person, m)
        if act.change and m.last is not done.last[name]:  # a later change stays, also one of the same kind
            refusals = refusals | {"conflict"}
        problem = _wrong(name, refusals, outcome)
        wrong += [problem] if problem else []
        if outcome or problem:
            continue
        if act.change:
            memories.undo(e, person, m)
        else:
            reviews.back_to_pending(e, m)
    return wrong


def _may_return(e: Expected, person: Person, m: Memory) -> Refusals:
    """Nobody overturns another curator's decision without having seen it."""
    refusals = reviews.may_undo_review(e, person, m)
    is_own = m.insight is not None and m.insight.reviewed_by == person.name
    return refusals if is_own else refusals | {"conflict"}


def _wrong(name: str, refusals: Refusals, outcome: str) -> str:
    if outcome == UNCHANGED:  # it was done before
        return ""
    if outcome and not refusals:
        return f"{name} must be changed, and not refused ({outcome})"
    if not outcome and refusals and ALLOWED not in refusals:
        return f"{name} must be refused as {' or '.join(sorted(refusals))}"
    return ""
