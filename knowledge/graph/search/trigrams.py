"""Substrings by groups of three letters: derived arrays under a core GIN index, since there may be no pg_trgm."""

from __future__ import annotations

import re

GRAM = 3
WORD = re.compile(r"\w+")
MAX_ASKED = 64  # of a query: they leave few rows, and each of those is looked at whole


def folded(text: str) -> str:
    """Without differences of case, in every script."""
    return text.casefold()


def grams(folded_text: str) -> list[str]:
    """The distinct groups of three characters."""
    return sorted({folded_text[n : n + GRAM] for n in range(len(folded_text) - GRAM + 1)})


def asked_grams(folded_query: str) -> list[str]:
    """Groups that every text has which holds this query."""
    return grams(folded_query)[:MAX_ASKED]


def words_of(text: str) -> list[str]:
    """The words of any script, folded."""
    return WORD.findall(folded(text))
