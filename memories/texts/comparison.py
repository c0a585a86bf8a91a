"""Comparison of two texts: whether they say the same, differ only in wording, or differ in a fact.

Vectors can't tell this: "before the audit" and "after the audit" have a cosine above .95. Two texts are the same only
if they have the same content words, negations, numbers, times and names in the same order. An unknown synonym therefore
makes them near, and not the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from memories.texts import words
from memories.texts.parts import Claim, PartKind, PlacedTime, TextToken
from memories.texts.reading import claim_language, read_claim

MAX_LENGTH = 4_000  # maximum number of characters of a text that is compared; a memory is not longer
MAX_FRONTED = 8  # maximum number of words of a phrase that is looked for elsewhere
MAX_QUOTED = 4  # maximum number of words quoted from each text for one difference


class TextVerdict(StrEnum):
    SAME = "same"
    NEAR = "near"  # other words, which may mean the same
    DIFFERENT = "different"  # another number, time, name, negation, opposite or role


class DifferenceKind(StrEnum):
    NUMBER = "number"
    UNIT = "unit"
    TIME = "time"
    TENSE = "tense"
    NEGATION = "negation"
    OPPOSITE = "opposite"
    NAME = "name"
    ORDER = "order"
    WORDS = "words"


@dataclass(frozen=True)
class Difference:
    """One difference. Each side quotes the words of one text, and is empty if the other text only adds something."""

    kind: DifferenceKind
    first: tuple[str, ...] = ()
    second: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.kind == DifferenceKind.ORDER:
            return "the same words in another order"
        if self.kind == DifferenceKind.TENSE:
            return "another tense or voice"
        quoted = [", ".join(side[:MAX_QUOTED]) for side in (self.first, self.second)]
        if all(quoted):
            return f"{quoted[0]} against {quoted[1]}"
        return f"“{quoted[0] or quoted[1]}” on one side only"


@dataclass(frozen=True)
class Comparison:
    verdict: TextVerdict
    differences: tuple[Difference, ...] = ()

    def __str__(self) -> str:
        return "; ".join(map(str, self.differences))


def compare(first: str, second: str) -> Comparison:
    """Compare two texts. The differences quote the first text before the second.

    Two texts of which one is longer than MAX_LENGTH are near without a comparison, unless they are equal.
    """
    if _plain(first) == _plain(second):
        return Comparison(TextVerdict.SAME)
    if max(len(first), len(second)) > MAX_LENGTH:
        return Comparison(TextVerdict.NEAR)
    language = claim_language(first)
    if language != claim_language(second):  # one of them may be too short to tell
        language = claim_language(f"{first}\n{second}")
    one = read_claim(first, language)
    other = read_claim(second, language)
    differences = tuple(_differences(one, other))
    if not differences:
        return Comparison(TextVerdict.SAME)
    is_near = all(_is_only_wording(difference) for difference in differences)
    return Comparison(TextVerdict.NEAR if is_near else TextVerdict.DIFFERENT, differences)


def is_same_fact(first: str, second: str) -> bool:
    """Return whether two similar texts may state the same fact, so that one of them can stand for both."""
    return compare(first, second).verdict != TextVerdict.DIFFERENT


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(" .!?")


def _is_only_wording(difference: Difference) -> bool:
    if difference.kind in (DifferenceKind.NUMBER, DifferenceKind.TIME, DifferenceKind.NAME):
        return not (difference.first and difference.second)  # one text only says more
    return difference.kind == DifferenceKind.WORDS


def _differences(one: Claim, other: Claim) -> list[Difference]:
    opposites = _opposites(one, other)
    found = [*_differing_numbers(one, other), *_differing_times(one, other)]
    if one.is_negated != other.is_negated and len(opposites) % 2:
        # "does not include" and "excludes": the negation and the opposite cancel each other.
        found += [Difference(DifferenceKind.WORDS, _texts([first]), _texts([second])) for first, second in opposites]
    else:
        found += _differing_negations(one, other)
        found += [Difference(DifferenceKind.OPPOSITE, _texts([first]), _texts([second])) for first, second in opposites]
    found += _differing_words(one, other, opposites)
    if not found and not _same_verb_forms(one, other):
        found.append(Difference(DifferenceKind.TENSE))
    if not found and not _same_order(one, other):
        found.append(Difference(DifferenceKind.ORDER))
    return found


def _only(first: Sequence[TextToken], second: Sequence[TextToken]) -> list[TextToken]:
    """Return the first sequence without the tokens of the second. A token goes as often as the second has it."""
    left = Counter(token.key for token in second)
    only = []
    for token in first:
        if left[token.key]:
            left[token.key] -= 1
        else:
            only.append(token)
    return only


def _texts(tokens: Sequence[TextToken]) -> tuple[str, ...]:
    return tuple(token.text.casefold() for token in tokens)


def _differing_numbers(one: Claim, other: Claim) -> list[Difference]:
    numbers = [[token for token in side.tokens if token.kind == PartKind.NUMBER] for side in (one, other)]
    first = _only(numbers[0], numbers[1])
    second = _only(numbers[1], numbers[0])
    if not first and not second:
        return []
    units = [{token.unit for token in side} for side in (first, second)]
    kind = DifferenceKind.UNIT if first and second and units[0] != units[1] else DifferenceKind.NUMBER
    return [Difference(kind, _texts(first), _texts(second))]


def _differing_times(one: Claim, other: Claim) -> list[Difference]:
    keys = [[f"{time.prefix} {time.key}" for time in side.times] for side in (one, other)]
    first, second = (list((Counter(keys[n]) - Counter(keys[1 - n])).elements()) for n in (0, 1))
    if not first and not second:
        return []
    quoted = [
        tuple(
            f"{time.prefix} {time.text}".strip().casefold()
            for time in side.times
            if f"{time.prefix} {time.key}" in only
        )
        for side, only in ((one, first), (other, second))
    ]
    return [Difference(DifferenceKind.TIME, *quoted)]


def _differing_negations(one: Claim, other: Claim) -> list[Difference]:
    if one.is_negated == other.is_negated:
        return []
    first = _only(one.negations, other.negations)
    second = _only(other.negations, one.negations)
    return [Difference(DifferenceKind.NEGATION, _texts(first), _texts(second))]


def _terms(claim: Claim) -> list[TextToken]:
    """Return the words of a claim, with prepositions as words of their own."""
    terms = []
    for token in claim.tokens:
        if token.prefix:
            terms.append(TextToken(token.prefix, token.prefix, PartKind.PREPOSITION))
        if token.kind != PartKind.NUMBER:
            terms.append(token)
    return terms


def _differing_words(one: Claim, other: Claim, opposites: Sequence[tuple[TextToken, TextToken]]) -> list[Difference]:
    terms = [_terms(one), _terms(other)]
    if "".join(token.key for token in terms[0]) == "".join(token.key for token in terms[1]):
        return []  # "data set" and "dataset"
    is_quoted = one.is_negated != other.is_negated  # the negations are a difference of their own
    sides = []
    for n in (0, 1):
        only = _only(terms[n], terms[1 - n])
        for pair in opposites:
            only = [token for token in only if token is not pair[n] and token.key != pair[n].key]
        sides.append([token for token in only if not (is_quoted and token.kind == PartKind.NEGATION)])
    names = [[token for token in side if token.kind == PartKind.NAME] for side in sides]
    found = []
    if all(names):
        found.append(Difference(DifferenceKind.NAME, _texts(names[0]), _texts(names[1])))
        sides = [[token for token in side if token.kind != PartKind.NAME] for side in sides]
    if any(sides):
        found.append(Difference(DifferenceKind.WORDS, _texts(sides[0]), _texts(sides[1])))
    return found


def _opposites(one: Claim, other: Claim) -> list[tuple[TextToken, TextToken]]:
    terms = [[*_terms(side), *(t for t in side.tokens if t.kind == PartKind.NUMBER)] for side in (one, other)]
    first, second = (
        [token for token in only if token.kind != PartKind.NEGATION]
        for only in (_only(terms[0], terms[1]), _only(terms[1], terms[0]))
    )
    pairs = []
    for token in first:
        if opposite := next((t for t in second if _are_opposites(token, t, one.language)), None):
            second.remove(opposite)
            pairs.append((token, opposite))
    return pairs


def _are_opposites(first: TextToken, second: TextToken, language: str) -> bool:
    opposites = words.opposite_keys(language)
    if any(form in opposites.get(key, ()) for key in _forms(first, language) for form in _forms(second, language)):
        return True
    short, long = sorted((first.text.casefold(), second.text.casefold()), key=len)
    prefixes = words.OPPOSING_PREFIXES.get(language, ())
    return len(short) > 3 and any(long == prefix + short for prefix in prefixes)


def _forms(token: TextToken, language: str) -> set[str]:
    word = token.text.casefold()
    return {token.key, word, re.sub(r"e[nrsm]?$", "e", word)} if language == "de" else {token.key, word}


def _same_verb_forms(one: Claim, other: Claim) -> bool:
    """Return whether both texts have the same tense and voice. A question with "did" is in the past without -ed."""
    auxiliaries = [side.auxiliaries - ({"be"} if side.has_agent else set()) for side in (one, other)]
    if auxiliaries[0] != auxiliaries[1] or (one.copula and other.copula and one.copula != other.copula):
        return False
    tenses = [_tense(side) for side in (one, other)]
    if set(tenses) == {"", "past"}:
        past = one if tenses[0] == "past" else other
        return not past.auxiliaries and past.do_at < 0 and not any(token.is_past for token in past.tokens)
    if len(set(tenses)) > 1 and set(tenses) != {"", "present"}:
        return False
    return _same_forms(one, other)


def _tense(claim: Claim) -> str:
    ends_in_past = claim.language == "en" and any(token.is_past for token in claim.tokens)
    return claim.tense or ("past" if ends_in_past else "")


def _same_forms(one: Claim, other: Claim) -> bool:
    forms = [{token.key: token.is_past for token in side.tokens} for side in (one, other)]
    for key in forms[0].keys() & forms[1].keys():
        if forms[0][key] != forms[1][key]:
            base, past = (one, other) if forms[1][key] else (other, one)
            if not past.has_agent and not (base.do_at >= 0 and base.tense == "past"):
                return False
    return True


def _same_order(one: Claim, other: Claim) -> bool:
    if not _same_cases(one, other) or not _same_places(one.times, other.times):
        return False
    if _same_sequence(one.tokens, other.tokens):
        return True
    if one.language != "de":
        return False
    (nouns, rest) = _nouns_and_rest(one)
    (other_nouns, other_rest) = _nouns_and_rest(other)
    return _joined(rest) == _joined(other_rest) and _same_sequence(nouns, other_nouns)


def _joined(tokens: Sequence[TextToken]) -> str:
    return "".join(token.term for token in tokens)


def _same_sequence(first: Sequence[TextToken], second: Sequence[TextToken]) -> bool:
    return _joined(first) == _joined(second) or _is_fronted(first, second) or _is_fronted(second, first)


def _is_fronted(tokens: Sequence[TextToken], other_tokens: Sequence[TextToken]) -> bool:
    """Return whether only a phrase with a preposition, at the front of one text, stands elsewhere in the other."""
    other = [token.term for token in other_tokens]
    start = next((n for n, token in enumerate(tokens) if token.kind != PartKind.QUESTION or token.prefix), 0)
    for begin in {0, start}:
        if begin >= len(tokens) or not tokens[begin].prefix:
            continue
        terms = [token.term for token in tokens]
        for end in range(begin + 1, min(len(tokens), begin + MAX_FRONTED) + 1):
            if end - begin > 1 and tokens[end - 1].prefix:
                break
            rest = terms[:begin] + terms[end:]
            block = terms[begin:end]
            size = len(block)
            places = (at for at in range(len(rest) + 1) if other[at : at + size] == block)
            if any(other[:at] + other[at + size :] == rest for at in places):
                return True
    return False


def _nouns_and_rest(claim: Claim) -> tuple[list[TextToken], list[TextToken]]:
    """Return the nouns with their adjectives, and the other words. A verb may stand before or after a noun."""
    nouns: list[TextToken] = []
    others: list[TextToken] = []
    tokens = claim.tokens
    for n, token in enumerate(tokens):
        following = tokens[n + 1] if n + 1 < len(tokens) else None
        is_adjective = bool(
            following
            and following.is_bound
            and following.text[0].isupper()
            and re.search(r"e[nrsm]?$", token.text)
            and not token.is_bound
        )
        is_free = token.kind == PartKind.WORD and token.text[0].islower() and not token.prefix and not is_adjective
        (others if is_free else nouns).append(token)
    return nouns, others


def _same_cases(one: Claim, other: Claim) -> bool:
    """Return whether no noun has another article in German, where the article tells subject from object."""
    cases: list[dict[str, set[str]]] = [{}, {}]
    for side, claim in zip(cases, (one, other), strict=True):
        for token in claim.tokens:
            if token.case and not token.prefix:
                side.setdefault(token.key, set()).add(token.case)
    return all(cases[0][key] & cases[1][key] for key in cases[0].keys() & cases[1].keys())


def _same_places(first: Sequence[PlacedTime], second: Sequence[PlacedTime]) -> bool:
    """Return whether the times are in the same order and at the same words, unless a time is at the front.

    Times of different kinds, such as a weekday and an hour, may change places.
    """
    by_kind: list[dict[str, list[tuple[str, str]]]] = [{}, {}]
    for side, times in zip(by_kind, (first, second), strict=True):
        for time in times:
            side.setdefault(time.key.split()[0], []).append((time.prefix, time.key))
    if by_kind[0] != by_kind[1]:
        return False
    anchors = [{(time.prefix, time.key): time.anchor for time in times} for times in (first, second)]
    return all(
        anchor == anchors[1][place] or not (anchor and anchors[1][place]) for place, anchor in anchors[0].items()
    )
