"""Trigrams for substring search.

They are stored in array columns with a plain GIN index, because the extension pg_trgm may be missing.
"""

from __future__ import annotations

import re

from foundation.operations.normal_form import normal_form

GRAM = 3
WORD = re.compile(r"\w+")
MAX_QUERY_GRAMS = 64  # maximum number of trigrams that select rows; the full texts of these rows are then compared


def folded(text: str) -> str:
    return normal_form(text).casefold()


def grams(folded_text: str) -> list[str]:
    return sorted({folded_text[start : start + GRAM] for start in range(len(folded_text) - GRAM + 1)})


def query_grams(folded_query: str) -> list[str]:
    """Return trigrams that occur in every text that contains the query."""
    return grams(folded_query)[:MAX_QUERY_GRAMS]


def words_of(text: str) -> list[str]:
    return WORD.findall(folded(text))
