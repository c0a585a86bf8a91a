"""Contradictions between two texts in numbers, units, times, negations and opposites.

Two texts that merely differ may both be true, so a contradiction is only reported if two sentences are about the same
thing and the conflicting words can be quoted.
"""

from __future__ import annotations

import re

from memories.retrieval.statements.comparison import Comparison, Difference, compare
from memories.retrieval.statements.parts import Kind, Statement
from memories.retrieval.statements.reading import read_statement, statement_language

CONFLICTS = (Difference.TIME, Difference.UNIT, Difference.NUMBER, Difference.OPPOSITE, Difference.NEGATION)
MAX_SENTENCES = 20  # maximum number of sentences of each text that are compared, because their pairs are compared
CONTENT = (Kind.WORD, Kind.NAME)
MIN_SHARED = 0.5  # minimum share of the shorter sentence's content words that the other one must contain
MIN_SHARED_OTHERWISE = 0.75  # the same if each sentence has words of its own, so that it may be about another thing


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
    return bool(read_statement(text, statement_language(text)).negations)


def _contradiction(first: str, second: str, only_one_negates: bool) -> str:
    comparison = compare(first, second)
    found = {difference.kind: difference for difference in comparison.differences}
    language = statement_language(f"{first}\n{second}")
    one, other = read_statement(first, language), read_statement(second, language)
    if Difference.NAME in found or not _same_subject(one, other, comparison):
        return ""
    if not only_one_negates:
        found.pop(Difference.NEGATION, None)
    conflicts = [
        found[kind]
        for kind in CONFLICTS
        if kind in found and (kind == Difference.NEGATION or (found[kind].first and found[kind].second))
    ]
    # A value that differs at another time is no contradiction.
    if not conflicts or (conflicts[0].kind == Difference.TIME and len(conflicts) > 1):
        return ""
    return str(conflicts[0])


def _same_subject(one: Statement, other: Statement, comparison: Comparison) -> bool:
    found = [difference for difference in comparison.differences if difference.kind == Difference.OPPOSITE]
    opposites = {word for difference in found for word in difference.first + difference.second}
    words = [
        {token.key for token in side.tokens if token.kind in CONTENT and token.text.casefold() not in opposites}
        for side in (one, other)
    ]
    labels, other_labels = _labels(one), _labels(other)
    if any(labels[key] != other_labels[key] for key in labels.keys() & other_labels.keys()):
        return False
    fewer = min(map(len, words))
    if not fewer:
        return False
    share = len(words[0] & words[1]) / fewer
    has_own_words = bool(words[0] - words[1]) and bool(words[1] - words[0])
    return share >= (MIN_SHARED_OTHERWISE if has_own_words else MIN_SHARED)


def _labels(statement: Statement) -> dict[str, str]:
    """Return numbers that name a thing, such as 12 in "store 12", by the word before them."""
    labels = {}
    tokens = statement.tokens
    for before, number, after in zip(tokens, tokens[1:], [*tokens[2:], None], strict=False):
        if number.kind != Kind.NUMBER or number.unit or number.prefix or not number.is_bound:
            continue
        if before.kind not in CONTENT or "_" in before.key:  # "at_least" and its like
            continue
        if statement.language == "de":
            is_label = before.text[0].isupper()
        else:  # "store 12 closes", but not "closes 12 stores" or "costs 12"
            is_label = before.text[0].isupper() or bool(after and after.is_bound and not before.text.endswith("s"))
        if is_label or (after is not None and not after.is_bound and not before.text.endswith("s")):
            labels[before.key] = number.key
    return labels
