"""Suggestions that say the same as one another."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from memories.texts.comparison import is_same_fact
from memories.writing.exact_duplicates import normalized_key

# Share of common words from which two texts are compared for differing facts. Texts with fewer common words are
# different suggestions, whatever they mean.
MIN_COMMON_WORDS = 0.6
WORD = re.compile(r"\w+")


def text_key(text: str) -> str:
    """Return a digest of a text that does not depend on case, white space and the punctuation at its ends."""
    return hashlib.sha256(normalized_key(text).strip(" .!?…:;,-–").encode()).hexdigest()


def is_near_duplicate(text: str, others: Iterable[str]) -> bool:
    """Return whether a text has most of its words in common with one of the others, and differs from it in no fact."""
    words = _words(text)
    for other in others:
        other_words = _words(other)
        common = len(words & other_words)
        either = len(words | other_words)
        if common >= MIN_COMMON_WORDS * either and is_same_fact(text, other):
            return True
    return False


def _words(text: str) -> frozenset[str]:
    return frozenset(WORD.findall(text.casefold()))
