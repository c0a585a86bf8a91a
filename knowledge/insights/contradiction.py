"""Detection of contradictions between two texts, by numbers, dates and negations rather than by meaning.

Two texts that merely differ may both be true, so a contradiction is only reported if the conflicting words can be
quoted.
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
# The matches of each pattern are compared separately: weekdays with weekdays, months with months.
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
MIN_SHARED = 0.5  # minimum share of the shorter sentence's words that the other one must contain


def contradiction(claim: str, text: str) -> str:
    """Return the first contradiction between a sentence of each text, or "" if there is none.

    For example: "6 against 24", "march against april", "“not” on one side only".
    """
    only_one_negates = bool(_negations(claim)) != bool(_negations(text))
    for sentence in sentences(claim):
        for other_sentence in sentences(text):
            if difference := _contradiction(sentence, other_sentence, only_one_negates):
                return difference
    return ""


def sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?;])\s+|\n+", text) if part.strip()]


def _contradiction(first: str, second: str, only_one_negates: bool) -> str:
    first_words, second_words = _words(first), _words(second)
    fewer = min(len(first_words), len(second_words))
    if fewer < 2 or len(first_words & second_words) / fewer < MIN_SHARED:
        return ""
    for pattern in DATES:
        if difference := _differ(pattern, first, second):
            return difference
    if difference := _differ(NUMBER, _undated(first), _undated(second)):
        return difference
    if only_one_negates and bool(_negations(first)) != bool(_negations(second)):
        return f"“{(_negations(first) or _negations(second))[0]}” on one side only"
    return ""


def _differ(pattern: re.Pattern[str], first: str, second: str) -> str:
    """Return the matches in each sentence, or "" if the sentences share a match or one of them has no match."""
    values, other_values = ({match.casefold() for match in pattern.findall(text)} for text in (first, second))
    if not values or not other_values or values & other_values:
        return ""
    return f"{', '.join(sorted(values))} against {', '.join(sorted(other_values))}"


def _undated(text: str) -> str:
    """Return the text without dates, so that the numbers in dates aren't compared again."""
    for pattern in (SPOKEN_DATE, *DATES):
        text = pattern.sub(" ", text)
    return text


def _words(text: str) -> set[str]:
    return {word for word in WORD.findall(text.casefold()) if word not in NEGATIONS}


def _negations(text: str) -> list[str]:
    return [word for word in re.findall(r"[^\W\d_]+", text.casefold()) if word in NEGATIONS]
