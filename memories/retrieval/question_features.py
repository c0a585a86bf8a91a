"""Cues in a question and in a turn of a conversation, as ranking features between 0 and 1.

speaker  1 if the question names exactly one of the candidates' speakers, and this speaker said the turn
date     the weighted share of the month, day and year named in the question that match the turn's time
when     1 if the question asks for a time and the turn contains a word about time
asks     1 if the turn ends with a question mark
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from babel.dates import get_month_names
from django.conf import settings

# Weights of the cues for choosing the seeds of context ranking, found with bench/recall_quality.py
SEED_SPEAKER = 0.2
SEED_DATE = 0.4

WEIGHT_OF_PART = {"month": 1.0, "day": 1.0, "year": 0.3}
ASKS_WHEN = re.compile(
    r"^\s*(when|how long|since when|what (date|day|year|month|time)|in (what|which) (year|month))\b", re.I
)
TIME_WORDS = re.compile(
    r"\b(yesterday|today|tonight|tomorrow|ago|last|next|this (morning|week|month|year|weekend)|week|weekend|month|year"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|march|april|may|june|july|august"
    r"|september|october|november|december|since|\d{4}|\d{1,2}(st|nd|rd|th)|years?|months?|weeks?|days?|recently|soon)\b",
    re.I,
)
MAX_NAME_WORDS = 3  # maximum number of words in a speaker's name

COLUMNS = """,
    CASE WHEN lower(author) = ANY(%(names)s) THEN lower(author) END AS speaker,
    CASE WHEN thread_position IS NULL THEN 0 ELSE {date} END AS date_share"""
CUE = """(
    %(w_speaker)s * CASE WHEN speaker IS NOT NULL AND (SELECT count(DISTINCT speaker) FROM scored) = 1 THEN 1 ELSE 0 END
    + %(w_date)s * date_share)::float8"""
DATE_PART = (
    "CASE WHEN extract({part} FROM created_at AT TIME ZONE 'UTC') = %(cue_{part})s THEN %(share_{part})s ELSE 0 END"
)


@dataclass(frozen=True)
class Cues:
    names: tuple[str, ...] = ()  # possible speaker names: all runs of one to three words, in lower case
    month: int = 0  # 0 if the question names no month
    day: int = 0  # 0 if the question names no day
    year: int = 0  # 0 if the question names no year
    asks_when: bool = False

    @classmethod
    def of(cls, question: str) -> Cues:
        words = [re.sub(r"['’]s$", "", word) for word in re.findall(r"[\w'’-]+", question.lower())]
        runs = {
            " ".join(words[start : start + size])
            for size in range(1, MAX_NAME_WORDS + 1)
            for start in range(len(words) - size + 1)
        }
        month, day = _month_and_day(words)
        year = next((int(word) for word in words if re.fullmatch(r"(19|20)\d\d", word)), 0)
        return cls(tuple(sorted(runs)), month, day, year, bool(ASKS_WHEN.match(question)))

    @property
    def date_shares(self) -> dict[str, float]:
        """The parts of a date that the question names, with weights that sum to 1. Empty if it names none."""
        parts = {part: weight for part, weight in WEIGHT_OF_PART.items() if getattr(self, part)}
        return {part: weight / sum(parts.values()) for part, weight in parts.items()}

    def sql(self) -> tuple[str, str, dict[str, Any]]:
        """Return SQL for the weighted sum of the speaker and date cues, SQL for its columns, and the parameters."""
        if not self.names:
            return "0::float8", "", {}
        shares = self.date_shares
        date = " + ".join(DATE_PART.format(part=part) for part in shares) or "0"
        params: dict[str, Any] = {"names": list(self.names), "w_speaker": SEED_SPEAKER}
        params |= {"w_date": SEED_DATE}
        params |= {f"cue_{part}": getattr(self, part) for part in shares}
        params |= {f"share_{part}": share for part, share in shares.items()}
        return CUE, COLUMNS.format(date=date), params

    def date(self, moment: Any) -> float:
        """Return the weighted share of the date named in the question that matches `moment`."""
        return sum(share for part, share in self.date_shares.items() if getattr(moment, part) == getattr(self, part))

    def time(self, text: str) -> bool:
        return self.asks_when and bool(TIME_WORDS.search(text))


def asks(text: str) -> bool:
    return text.rstrip().endswith(("?", "？"))


def _month_and_day(words: list[str]) -> tuple[int, int]:
    for position, word in enumerate(words):
        if month := _months().get(word, 0):
            # "3 of May", "3rd May", "May 3rd"
            around = words[max(position - 2, 0) : position] + words[position + 1 : position + 2]
            days = [int(match[1]) for other in around if (match := re.fullmatch(r"(\d{1,2})(st|nd|rd|th)?", other))]
            return month, next((day for day in days if 1 <= day <= 31), 0)
    return 0, 0


@lru_cache(maxsize=1)
def _months() -> dict[str, int]:
    names: dict[str, int] = {}
    for language in settings.RECALL_LANGUAGES:
        names |= {name.lower(): number for number, name in get_month_names("wide", locale=language).items()}
    return names
