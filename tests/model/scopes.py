"""Where memories hold, and verdicts that two memories both hold. See memories.py for the meaning of `may_x` and `x`."""

from __future__ import annotations

from tests.model import memories
from tests.model.expected import INVALID, NOT_FOUND, Expected, Memory, Person
from tests.model.memories import Refusals, conflict_if, may_change

SCOPES = ("", "purpose:board", "purpose:forecast", "persona:supply")


def may_set_scope(e: Expected, person: Person, m: Memory, scope: str) -> Refusals:
    refusals = may_change(e, person, m) | conflict_if(not m.is_living)
    kind, _, name = scope.partition(":")
    may_name = person.is_admin or name in person.personas or name == m.persona
    if scope != m.scope and kind == "persona" and not may_name:
        refusals |= {INVALID}
    return refusals | _if_in_review(person, m, scope)


def _if_in_review(person: Person, m: Memory, scope: str) -> Refusals:
    if memories.waits_already(m, {"scope": scope}):
        return set()
    is_bound = m.insight is not None and m.insight.state == "approved" and bool(m.insight.changeset)
    return conflict_if(is_bound and scope != m.scope, scope != m.scope and memories.has_edit_of_other(person, m))


def set_scope(e: Expected, person: Person, m: Memory, scope: str) -> None:
    if scope == m.scope or memories.waits_already(m, {"scope": scope}):
        return
    if m.is_in_force and m.insight:
        memories.let_wait(m.insight, person, {"scope": scope})
        return
    m.changed("rescope", person.name, scope=m.scope)
    m.scope = scope


def may_settle(e: Expected, person: Person, pair: tuple[Memory, Memory], scopes: tuple[str, str]) -> Refusals:
    """Two active memories contradict each other, unless they hold in different scopes."""
    if not all(e.sees(person, m) for m in pair):
        return {NOT_FOUND}
    first, second = pair
    differ = bool(first.scope and second.scope) and first.scope != second.scope
    refusals = conflict_if(any(m.status != "active" for m in pair), differ, _proposal(person, pair) in e.proposals)
    for m, scope in zip(pair, scopes, strict=True):
        refusals |= _if_in_review(person, m, scope) if e.owns(person, m) else set()
    return refusals | ({INVALID} if scopes[0] == scopes[1] else set())


def settle(e: Expected, person: Person, pair: tuple[Memory, Memory], scopes: tuple[str, str]) -> None:
    """Who may change a memory says where it holds. For another's, and for an approved one, it is a proposal."""
    is_proposal = False
    for m, scope in zip(pair, scopes, strict=True):
        if scope == m.scope:
            continue
        is_proposal = is_proposal or m.is_in_force or not e.owns(person, m)
        if e.owns(person, m):
            set_scope(e, person, m, scope)
    if is_proposal:
        e.proposals.add(_proposal(person, pair))


def _proposal(person: Person, pair: tuple[Memory, Memory]) -> tuple[str, ...]:
    return (person.name, *(part for m in pair for part in (m.name, str(m.text))))
