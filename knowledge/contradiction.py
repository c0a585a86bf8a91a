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
ISO_DATE = re.compile(r"(?<![\w-])\d{4}-\d{2}(?:-\d{2})?(?![\w-])")
MONTH = rf"(?:{'|'.join(name.capitalize() for name in MONTHS)})"  # in lower case, “may” and “march” are verbs
SPOKEN_DATE = re.compile(rf"\b(?:\d{{1,2}}\.? )?{MONTH}\b(?: \d{{1,2}}(?!\d),?)?(?: \d{{4}})?")
WEEKDAY = re.compile(rf"\b(?:{'|'.join(DAYS)})s?\b", re.IGNORECASE)
WORD = re.compile(r"[^\W\d_]{3,}")
NEGATIONS = frozenset(
    {
        "not", "no", "never", "without", "excludes", "exclude", "excluding", "none", "isn", "doesn", "aren", "don",
        "cannot", "neither", "nor",
    }
)  # fmt: skip
SHARED = 0.5  # share of the shorter sentence's words that both have, from which they are about the same


def contradiction(claim: str, text: str) -> str:
    """Where a sentence of one says otherwise than one of the other: `6 against 24`, a date, or a negation; "" if
    nowhere."""
    for sentence in sentences(claim):
        for other_sentence in sentences(text):
            if why := _between(sentence, other_sentence):
                return why
    return ""


def sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?;])\s+|\n+", text) if part.strip()]


def _between(first: str, second: str) -> str:
    first_words, second_words = _words(first), _words(second)
    fewer = min(len(first_words), len(second_words))
    if fewer < 2 or len(first_words & second_words) / fewer < SHARED:
        return ""
    first, second, dates, other_dates = *_undated(first, second), _dates(first), _dates(second)
    if dates and other_dates and not dates & other_dates:
        return f"{', '.join(sorted(dates))} against {', '.join(sorted(other_dates))}"
    numbers, other_numbers = set(NUMBER.findall(first)), set(NUMBER.findall(second))
    if numbers and other_numbers and not numbers & other_numbers:
        return f"{', '.join(sorted(numbers))} against {', '.join(sorted(other_numbers))}"
    if bool(_negations(first)) != bool(_negations(second)):
        return f"“{(_negations(first) or _negations(second))[0]}” on one side only"
    return ""


def _dates(text: str) -> set[str]:
    """The dates of a sentence, as they are written there: days, months and weekdays."""
    found_dates = [match[0] for pattern in (ISO_DATE, SPOKEN_DATE) for match in pattern.finditer(text)]
    weekdays = [match[0].capitalize().rstrip("s") for match in WEEKDAY.finditer(text)]
    return {date.strip(" ,") for date in found_dates} | set(weekdays)


def _undated(*texts: str) -> list[str]:
    """The texts without their dates, whose numbers are compared as dates."""
    return [SPOKEN_DATE.sub(" ", ISO_DATE.sub(" ", text)) for text in texts]


def _words(text: str) -> set[str]:
    return {word for word in WORD.findall(text.casefold()) if word not in NEGATIONS}


def _negations(text: str) -> list[str]:
    return [word for word in re.findall(r"[^\W\d_]+", text.casefold()) if word in NEGATIONS]
