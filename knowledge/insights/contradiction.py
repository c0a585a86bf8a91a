"""Whether two texts about the same thing say opposite things: by numbers, dates and negations, not by meaning.

A disagreement is only shown where it can be pointed at; two texts that merely differ may both be true.
"""

from __future__ import annotations

import re

NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*(?![\w])")
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTH = rf"(?:{'|'.join(name.capitalize() for name in MONTHS)})"  # in lower case, “may” and “march” are verbs
SPOKEN_DATE = re.compile(rf"\b\d{{1,2}}(?:st|nd|rd|th|\.)? {MONTH}\b|\b{MONTH} \d{{1,2}}(?!\d)")
# Like is compared with like: days with days, months with months.
DATES = (
    re.compile(r"(?<![\w-])\d{4}-\d{2}(?:-\d{2})?(?![\w-])"),
    SPOKEN_DATE,
    re.compile(rf"\b{MONTH}\b"),
    re.compile(rf"\b({'|'.join(DAYS)})s?\b", re.IGNORECASE),
    re.compile(r"(?<![\w.,-])(?:19|20)\d{2}(?![\w-]|[.,]\d)"),  # a year
)
WORD = re.compile(r"[^\W\d_]{3,}")
NEGATIONS = frozenset(
    {
        "not", "no", "never", "without", "excludes", "exclude", "excluding", "none", "isn", "doesn", "aren", "don",
        "cannot", "neither", "nor",
    }
)  # fmt: skip
SHARED = 0.5  # share of the shorter sentence's words that both have, from which they are about the same


def contradiction(claim: str, text: str) -> str:
    """Where a sentence of one says otherwise than one of the other: `6 against 24`, a date, or a negation that only one
    of the texts has; "" if nowhere."""
    one_denies = bool(_negations(claim)) != bool(_negations(text))
    for sentence in sentences(claim):
        for other_sentence in sentences(text):
            if why := _between(sentence, other_sentence, one_denies):
                return why
    return ""


def sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?;])\s+|\n+", text) if part.strip()]


def _between(first: str, second: str, one_denies: bool) -> str:
    first_words, second_words = _words(first), _words(second)
    fewer = min(len(first_words), len(second_words))
    if fewer < 2 or len(first_words & second_words) / fewer < SHARED:
        return ""
    for pattern in DATES:
        if difference := _differ(pattern, first, second):
            return difference
    if difference := _differ(NUMBER, _undated(first), _undated(second)):
        return difference
    if one_denies and bool(_negations(first)) != bool(_negations(second)):
        return f"“{(_negations(first) or _negations(second))[0]}” on one side only"
    return ""


def _differ(pattern: re.Pattern[str], first: str, second: str) -> str:
    """What of one kind both sentences name, without one in common."""
    values, other_values = ({match.casefold() for match in pattern.findall(text)} for text in (first, second))
    if not values or not other_values or values & other_values:
        return ""
    return f"{', '.join(sorted(values))} against {', '.join(sorted(other_values))}"


def _undated(text: str) -> str:
    """The text without its dates, whose numbers are compared as dates."""
    for pattern in (SPOKEN_DATE, *DATES):
        text = pattern.sub(" ", text)
    return text


def _words(text: str) -> set[str]:
    return {word for word in WORD.findall(text.casefold()) if word not in NEGATIONS}


def _negations(text: str) -> list[str]:
    return [word for word in re.findall(r"[^\W\d_]+", text.casefold()) if word in NEGATIONS]
