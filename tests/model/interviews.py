"""What people may ask and answer in interviews, and what that changes. See memories.py for `may_x` and `x`.

The rules leave open why a question is asked, so which of several questions about an entity. An entity without a
description can be asked about once.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.model import memories, reviews
from tests.model.expected import ALLOWED, CONFLICT, FORBIDDEN, NOT_FOUND, Expected, Memory, Person, Text
from tests.model.memories import Refusals, conflict_if


@dataclass
class Question:
    owner: str
    entity: str
    asked_by: str
    state: str = "open"
    answer: str = ""  # the name of the insight

    def expected_state(self, e: Expected) -> str:
        """An answer that is erased closes its question."""
        return "closed" if self.state == "answered" and self.answer not in e.memories else self.state


def may_ask(e: Expected, person: Person, asked: Person, entity: str, asked_before: bool) -> Refusals:
    if person is not asked and not person.is_curator:
        return {FORBIDDEN}
    if person is not asked and not person.is_admin and not set(person.personas) & set(asked.personas):
        return {NOT_FOUND}
    # Memories about an entity that the catalog never had may be contested, so it may be asked about, too.
    is_missing = e.entities[entity].exists and e.entities[entity].value("description") is None
    return set() if is_missing and not asked_before else {CONFLICT, ALLOWED}


def may_decide(e: Expected, person: Person, question: Question) -> Refusals:
    if question.owner != person.name:
        return {NOT_FOUND}
    return conflict_if(question.expected_state(e) != "open")


def answer(e: Expected, person: Person, question: Question, text: Text) -> Memory:
    m = reviews.capture(e, person, text, "persona", [question.entity], None)
    m.is_caveat = False
    question.state, question.answer = "answered", m.name
    return m


def may_undo(e: Expected, person: Person, question: Question) -> Refusals:
    if person.name not in (question.owner, question.asked_by):
        return {NOT_FOUND}
    if person.name != question.owner:  # who has asked may take it back
        return conflict_if(question.expected_state(e) != "open")
    return conflict_if(question.expected_state(e) in ("open", "closed"))


def undo(e: Expected, person: Person, question: Question) -> None:
    if person.name != question.owner:
        question.state = "closed"
        return
    m = e.memories.get(question.answer)
    if m is not None and m.is_living:
        memories.forget(e, person, m)
    question.state, question.answer = "open", ""


def is_untouched(e: Expected, question: Question) -> bool:
    """Whether an answer still waits as its author has written it. Whether others can be undone is left open."""
    m = e.memories.get(question.answer)
    if m is None or m.insight is None:
        return True
    return m.owner == question.owner and m.insight.state == "pending" and m.last is None and m.status == "active"
