"""The parts of a claim."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

AT_END = -1  # place of a time behind all content words


class PartKind(StrEnum):
    WORD = "word"
    NAME = "name"
    NUMBER = "number"
    NEGATION = "negation"
    QUESTION = "question"
    PREPOSITION = "preposition"  # one without an object
    CONJUNCTION = "conjunction"


@dataclass(frozen=True)
class TextToken:
    """A word or value. `key` is equal for the forms of one word; `prefix` is the preposition before it."""

    key: str
    text: str
    kind: PartKind
    prefix: str = ""
    unit: str = ""  # base unit of a number
    case: str = ""  # last letter of the German article before it, as a sign of its role
    is_bound: bool = True  # follows the previous token without a function word or comma in between
    is_past: bool = False  # has the ending of a past tense, which the stem has lost

    @property
    def term(self) -> str:
        return f"{self.prefix} {self.key}" if self.prefix else self.key


@dataclass(frozen=True)
class PlacedTime:
    key: str
    text: str
    prefix: str  # a preposition that means more than the place in time, such as "before"
    anchor: int  # number of content words without preposition before it; 0 at the front, AT_END behind all of them


@dataclass
class Claim:
    text: str
    language: str
    tokens: list[TextToken] = field(default_factory=list)
    times: list[PlacedTime] = field(default_factory=list)
    tense: str = ""  # past, present, future or "" if there is no auxiliary
    copula: str = ""  # tense of a form of "be" that only links words, as in "What was the revenue?"
    do_at: int = -1  # position of the first token after the auxiliary "do", or -1
    auxiliaries: set[str] = field(default_factory=set)  # be, have and become, where they are part of a verb
    has_agent: bool = False  # was in the passive voice, with the agent named

    @property
    def negations(self) -> list[TextToken]:
        return [token for token in self.tokens if token.kind == PartKind.NEGATION]

    @property
    def is_negated(self) -> bool:
        return sum(token.key not in ("nor", "noch") for token in self.negations) % 2 == 1
