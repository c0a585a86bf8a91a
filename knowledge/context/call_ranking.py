"""Order of the memories about the tables of a statement, if there are more than can be attached.

Popular tables have many memories. The statement decides which of them matter: those about its columns, those that tell
which rows to leave out, and for a statement with a join those about joining. A memory about one value of a column, or
about further tables, matters less if the statement mentions neither. The weights were chosen with bench/delivery.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from uuid import UUID

from knowledge.context.call_match import USUAL_COSINE, Evidence, Profile, evidence_in
from knowledge.context.candidate_memories import FoundMemory
from knowledge.entities.call_subject import CallSubject

# Words of memories that tell which rows don't count. Such a memory matters to every statement that lacks the filter.
LEAVES_OUT = re.compile(
    r"\b(?:tests?|testing|training|dummy|dummies|sandbox|fake|made.up|placeholders?|qa|not real|(?:is|are)n.t real"
    r"|exclud\w+|without|drop|leave\w* (?:\w+ ){0,3}out|filter\w*|must not|(?:don|doesn).t count|never count"
    r"|not in our|not belong|duplicat\w+|twice|internal|intercompany|robots?|bots?|crawlers?|monitoring"
    r"|ohne|ausschlie\w+|filtern|weglassen|doppelt|testdaten)\b",
    re.IGNORECASE,
)
JOINS = re.compile(
    r"\b(?:join\w*|multipl\w+|doubl\w+|fans? out|rows? (?:per|for each)|per order|one row|several rows|many rows)\b",
    re.IGNORECASE,
)
# Words of memories that name a better source. They name a further table because they must.
REDIRECTS = re.compile(
    r"\b(?:instead|replaced|moved|no longer|any ?more|come\w* from|go to|deprecated|frozen|stopped|isn.t maintained"
    r"|stattdessen|ersetzt|nicht mehr)\b",
    re.IGNORECASE,
)
# Values of columns as people write them: quoted, or after an equals sign.
VALUE = re.compile(r"'([^'\n]{1,60})'|=\s*([\w.-]+)")


def relevances(found: Iterable[FoundMemory], subject: CallSubject, profile: Profile) -> dict[UUID, float]:
    """Return the relevance of memories to the statement of a call by their ids. It may be negative."""
    return {row.record.pk: _relevance(row, subject, profile) for row in found}


def _relevance(found: FoundMemory, subject: CallSubject, profile: Profile) -> float:
    record = found.record
    text = record.content
    evidence = evidence_in(text, profile)
    urns = {*record.entity_urns, *record.detected_urns}
    is_redirect = bool(REDIRECTS.search(text))
    is_join = sum(len(statement.tables) for statement in subject.statements) > 1
    is_named = any("_" in name for name in evidence.tables)
    return (
        1.0 * (is_named or bool(urns & set(subject.requested)))
        + _columns(evidence)
        + 2.0 * bool(LEAVES_OUT.search(text))
        + (1.0 if is_join else -1.0) * bool(JOINS.search(text))
        + (0.5 if is_redirect else -1.5 * (bool(urns - set(subject.requested)) and not is_join))
        - _other_values(text, evidence, profile)
        + 6.0 * (USUAL_COSINE if found.cosine is None else found.cosine)
    )


def _columns(evidence: Evidence) -> float:
    return (
        2.0 * min(len(evidence.identifiers), 2)
        + 0.8 * min(len(evidence.words), 2)
        + 0.3 * min(len(evidence.other_identifiers), 2)
        + 1.5 * min(len(evidence.literals), 2)
    )


def _other_values(text: str, evidence: Evidence, profile: Profile) -> float:
    """Return the deduction for a text about values of a column, if the statement chooses none or others."""
    is_about_values = bool(VALUE.search(text)) and not evidence.literals
    if not is_about_values:
        return 0.0
    return 1.5 if profile.literals else 0.75
