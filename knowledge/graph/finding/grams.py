"""Substrings by groups of three letters: derived arrays under a core GIN index, since there may be no pg_trgm."""

from __future__ import annotations

import re

GRAM = 3
WORD = re.compile(r"\w+")
GRAMS_MOST = 4_000  # of one text: the others are found by the rest of the query


def folded(text: str) -> str:
    """Without differences of case, in every script."""
    return text.casefold()


def grams(folded_text: str) -> list[str]:
    """The distinct groups of three characters."""
    groups = {folded_text[n : n + GRAM] for n in range(len(folded_text) - GRAM + 1)}
    return sorted(groups)[:GRAMS_MOST]


def words_of(text: str) -> list[str]:
    """The words of any script, folded."""
    return WORD.findall(folded(text))
