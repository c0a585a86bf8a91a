"""Whether two texts about the same thing say opposite things: by their numbers and negations, not by their meaning.

A disagreement is only shown where it can be pointed at; two texts that merely differ may both be true.
"""

from __future__ import annotations

import re

NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*(?![\w])")
WORD = re.compile(r"[^\W\d_]{3,}")
NEGATIONS = frozenset(
    {
        "not", "no", "never", "without", "excludes", "exclude", "excluding", "none", "isn", "doesn", "aren", "don",
        "cannot", "neither", "nor",
    }
)  # fmt: skip
SHARED = 0.5  # share of the shorter sentence's words that both have, from which they are about the same


def contradiction(claim: str, text: str) -> str:
    """Where a sentence of one says otherwise than one of the other: `6 against 24`, or a negation; "" if nowhere."""
    for one in sentences(claim):
        for other in sentences(text):
            if why := _between(one, other):
                return why
    return ""


def sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?;])\s+|\n+", text) if part.strip()]


def _between(one: str, other: str) -> str:
    ours, theirs = _words(one), _words(other)
    fewer = min(len(ours), len(theirs))
    if fewer < 2 or len(ours & theirs) / fewer < SHARED:
        return ""
    numbers, others = set(NUMBER.findall(one)), set(NUMBER.findall(other))
    if numbers and others and not numbers & others:
        return f"{', '.join(sorted(numbers))} against {', '.join(sorted(others))}"
    if bool(_negations(one)) != bool(_negations(other)):
        return f"“{(_negations(one) or _negations(other))[0]}” on one side only"
    return ""


def _words(text: str) -> set[str]:
    return {word for word in WORD.findall(text.casefold()) if word not in NEGATIONS}


def _negations(text: str) -> list[str]:
    return [word for word in re.findall(r"[^\W\d_]+", text.casefold()) if word in NEGATIONS]
