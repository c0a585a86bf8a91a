"""Contradictions between two texts in numbers, units, times, negations and opposites.

Two texts that merely differ may both be true, so a contradiction is only reported if two sentences are about the same
thing, differ in a single fact, and the conflicting words can be quoted. docs/benchmarks.md has the measured precision.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

from memories.texts.comparison import Comparison, Difference, DifferenceKind, compare
from memories.texts.contradiction_words import (
    AMOUNTS,
    COMPARATORS,
    KINDS_OF_THINGS,
    OPPOSITE_TIMES,
    RANGE,
    SCOPING,
    SCOPING_WORDS,
    measure_of,
)
from memories.texts.parts import Claim, PartKind, TextToken
from memories.texts.reading import claim_language, read_claim

CONFLICTS = (
    DifferenceKind.TIME,
    DifferenceKind.UNIT,
    DifferenceKind.NUMBER,
    DifferenceKind.OPPOSITE,
    DifferenceKind.NEGATION,
)
MAX_SENTENCES = 20  # maximum number of sentences of each text that are compared, because their pairs are compared
CONTENT = (PartKind.WORD, PartKind.NAME)
MIN_SHARED = 0.5  # minimum share of the shorter sentence's content words that the other one must contain
DAYS_OF_MONTH = Decimal("30.4")
MIN_RATIO = Decimal("1.25")  # minimum ratio of days and months, which can't be converted exactly, that conflict


def contradiction(claim: str, text: str) -> str:
    """Return the first contradiction between a sentence of each text, or "" if there is none.

    For example: "6 against 24", "march against april", "“not” on one side only".
    """
    only_one_negates = _negates(claim) != _negates(text)
    for sentence in sentences(claim)[:MAX_SENTENCES]:
        for other_sentence in sentences(text)[:MAX_SENTENCES]:
            if difference := _contradiction(sentence, other_sentence, only_one_negates):
                return difference
    return ""


def sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?;])\s+|\n+", text) if part.strip()]


def _negates(text: str) -> bool:
    return bool(read_claim(text, claim_language(text)).negations)


@dataclass
class _Pair:
    """Two sentences, with the content words that only one of them has. Words of opposites are not among these."""

    one: Claim
    other: Claim
    comparison: Comparison
    opposites: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for difference in self.comparison.differences:
            if difference.kind == DifferenceKind.OPPOSITE:
                self.opposites.update(difference.first + difference.second)

    @property
    def sides(self) -> tuple[Claim, Claim]:
        return self.one, self.other

    @cached_property
    def words(self) -> list[set[str]]:
        return [{token.key for token in self._content(side)} for side in self.sides]

    @cached_property
    def own(self) -> list[list[TextToken]]:
        return [
            [token for token in self._content(side) if token.key not in self.words[1 - n]]
            for n, side in enumerate(self.sides)
        ]

    def _content(self, side: Claim) -> list[TextToken]:
        return [token for token in side.tokens if token.kind in CONTENT and token.text.casefold() not in self.opposites]

    def is_about_the_same(self) -> bool:
        labels, other_labels = ({**_labels(side), **_letters(side.text)} for side in self.sides)
        if any(labels[key] != other_labels[key] for key in labels.keys() & other_labels.keys()):
            return False
        fewer = min(map(len, self.words))
        shares_enough = fewer > 0 and len(self.words[0] & self.words[1]) / fewer >= MIN_SHARED
        # If each sentence has words of its own, they may name two cases, such as new and returning customers.
        return shares_enough and not all(self.own) and not any(map(self._narrows, (0, 1))) and not self._is_moved()

    def _is_moved(self) -> bool:
        """Return whether a shared word has another scoping preposition: "during the sale" and "outside the sale"."""
        prefixes = [{t.key: t.prefix for t in side.tokens if t.prefix in SCOPING} for side in self.sides]
        return any(prefixes[0][key] != prefixes[1][key] for key in prefixes[0].keys() & prefixes[1].keys())

    def _narrows(self, side: int) -> bool:
        """Return whether the words that only this sentence has limit it to a part of what the other one is about."""
        prepositions = [token.prefix for token in self.own[side]]
        return bool(SCOPING.intersection(prepositions)) or any(
            token.text.casefold() in SCOPING_WORDS or token.key in COMPARATORS for token in self.own[side]
        )


def _contradiction(first: str, second: str, only_one_negates: bool) -> str:
    language = claim_language(f"{first}\n{second}")
    pair = _Pair(read_claim(first, language), read_claim(second, language), compare(first, second))
    if measures := _differing_measures(pair):
        return str(measures)
    differences = [found for found in pair.comparison.differences if found.kind in (*CONFLICTS, DifferenceKind.NAME)]
    # Sentences that differ in two facts are about two cases: "In 2024 there were 12 strikes" and "In 2025, 15".
    if len(differences) != 1 or not pair.is_about_the_same():
        return ""
    (difference,) = differences
    return str(difference) if _is_conflict(difference, pair, only_one_negates) else ""


def _is_conflict(difference: Difference, pair: _Pair, only_one_negates: bool) -> bool:
    if difference.kind == DifferenceKind.NAME:
        return False
    if difference.kind == DifferenceKind.NEGATION:
        negated = 0 if pair.one.is_negated else 1
        # "Prices include VAT" and "Prices do not include VAT and shipping" differ in what is negated.
        return only_one_negates and not pair.own[negated] and not _has_time_of_its_own(pair)
    if not difference.first or not difference.second:
        return False
    if difference.kind == DifferenceKind.TIME:
        return _are_unequal_times(pair)
    if difference.kind == DifferenceKind.OPPOSITE:
        return len(difference.first) == len(difference.second) == 1 and not _is_at_the_front(difference, pair)
    return _are_unequal_amounts(pair)


def _are_unequal_times(pair: _Pair) -> bool:
    if any(time.anchor == 0 for side in pair.sides for time in side.times):  # "In March, …" names the case
        return False
    if _has_time_of_its_own(pair):
        return True
    prefixes = [{time.key: time.prefix for time in side.times} for side in pair.sides]
    return any({prefixes[0][key], prefixes[1][key]} in OPPOSITE_TIMES for key in prefixes[0])


def _has_time_of_its_own(pair: _Pair) -> bool:
    keys = [{time.key for time in side.times} for side in pair.sides]
    return keys[0] != keys[1]


def _is_at_the_front(difference: Difference, pair: _Pair) -> bool:
    """Return whether both sentences begin with the opposites, so that these name two cases.

    For example "before the migration" and "after the migration", or "gross revenue" and "net revenue".
    """
    fronts = [side.tokens[0] for side in pair.sides if side.tokens]
    texts = [difference.first[0], difference.second[0]]
    if len(fronts) == len(texts) and all(token.prefix == text for token, text in zip(fronts, texts, strict=True)):
        return True
    return all(
        token.text.casefold() == text and (text in KINDS_OF_THINGS or token.prefix)
        for token, text in zip(fronts, texts, strict=False)
    )


def _differing_measures(pair: _Pair) -> Difference | None:
    """Return units without a number that differ, as in "The weight is in grams" and "in kilograms"."""
    if [len(side) for side in pair.own] != [1, 1]:
        return None
    (one,), (other,) = pair.own
    measures = [measure_of(token.text) for token in (one, other)]
    if not all(measures) or measures[0] == measures[1] or measures[0][0] != measures[1][0]:
        return None
    other_kinds = {found.kind for found in pair.comparison.differences} & {*CONFLICTS}
    shared = pair.words[0] & pair.words[1]
    if other_kinds or not shared or one.prefix != other.prefix:
        return None
    return Difference(DifferenceKind.UNIT, (one.text.casefold(),), (other.text.casefold(),))


def _are_unequal_amounts(pair: _Pair) -> bool:
    numbers = [[token for token in side.tokens if token.kind == PartKind.NUMBER] for side in pair.sides]
    keys = [[token.key for token in side] for side in numbers]
    left = [[token for token in side if token.key not in keys[1 - n]] for n, side in enumerate(numbers)]
    if _has_time_of_its_own(pair):
        return False
    if all(len(side) == 2 and side[1].prefix in RANGE for side in left):  # "90 to 180 days" and "120 to 240 days"
        return len({number.unit for side in left for number in side[1:]}) == 1
    if [len(side) for side in left] != [1, 1]:
        return False
    (one,), (other,) = left
    if one.key.startswith("#") or other.key.startswith("#"):  # ordinals name things, such as "the second half"
        return one.key.startswith("#") and other.key.startswith("#") and not one.text[0].isdigit()
    if one.unit == other.unit:
        return True
    if {one.unit, other.unit} == {"", "%"}:  # 0.19 and 19 %
        values = [_value(token) / (100 if token.unit else 1) for token in (one, other)]
        return values[0] != values[1] and all(0 <= value <= 1 for value in values)
    if {one.unit, other.unit} == {"s", "month"}:
        days = sorted(_value(t) / 86_400 if t.unit == "s" else _value(t) * DAYS_OF_MONTH for t in (one, other))
        return days[1] > days[0] * MIN_RATIO
    return any({one.unit, other.unit} <= amounts for amounts in AMOUNTS)


def _value(number: TextToken) -> Decimal:
    return Decimal(number.key.split()[0])


def _labels(claim: Claim) -> dict[str, str]:
    """Return numbers that name a thing, such as 12 in "store 12", by the word before them."""
    labels = {}
    tokens = claim.tokens
    for before, number, after in zip(tokens, tokens[1:], _followers(tokens), strict=False):
        if number.kind != PartKind.NUMBER or number.unit or number.prefix or not number.is_bound:
            continue
        if before.kind not in CONTENT or "_" in before.key:  # "at_least" and its like
            continue
        if claim.language == "de":
            is_label = before.text[0].isupper()
        else:  # "store 12 closes", but not "closes 12 stores" or "costs 12"
            is_label = before.text[0].isupper() or bool(after and after.is_bound and not before.text.endswith("s"))
        if is_label or (after is not None and not after.is_bound and not before.text.endswith("s")):
            labels[before.key] = number.key
    return labels


def _letters(text: str) -> dict[str, str]:
    """Return capital letters that name a thing, such as B in "team B", by the word before them."""
    return {word.casefold(): letter for word, letter in re.findall(r"\b([^\W\d_]+) ([A-Z])\b(?!['’.])", text)}


def _followers(tokens: Sequence[TextToken]) -> list[TextToken | None]:
    return [*tokens[2:], None]
