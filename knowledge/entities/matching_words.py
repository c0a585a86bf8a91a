"""Words of texts and names, cut to stems so that "visitors" meets `visitor_id` and "discontinued" `discontinued_on`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from knowledge.entities.call_subject import CAMEL, STOP_WORDS, WORD, singular
from knowledge.entities.entity_linking import URN

MIN_WORD = 3  # minimum number of letters of a word that counts
MIN_STEM = 4  # minimum number of letters that remain when an ending is cut off
ENDINGS = ("ations", "ation", "ings", "ing", "ments", "ment", "ions", "ion", "ers", "er", "ed", "es", "e", "y")
MAX_WORDS = 60  # of a text, the first ones
# Words of sentences about data that say nothing about which data: every table has dates, numbers and reasons.
COMMON = frozenset({
    "account", "according", "always", "amount", "because", "before", "being", "belong", "below", "both", "came",
    "contain", "contains", "count", "counted", "counts", "data", "date", "day", "days", "does", "down", "during",
    "each", "even", "ever", "every", "field", "first", "gets", "goes", "hour", "hours", "include", "includes", "into",
    "keep", "keeps", "key", "last", "later", "less", "like", "long", "look", "looks", "made", "make", "may", "mean",
    "means", "might", "minute", "minutes", "month", "months", "must", "name", "need", "never", "next", "number",
    "off", "often", "once", "only", "other", "others", "our", "out", "own", "part", "per", "same", "say", "says",
    "set", "she", "should", "since", "some", "start", "starts", "still", "such", "than", "them", "three", "time",
    "too", "two", "under", "use", "used", "uses", "very", "way", "week", "weeks", "well", "were", "what", "whole",
    "within", "without", "would", "year", "years", "yet", "yesterday", "today", "until", "ago",
})  # fmt: skip


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """Return a word in lower case without plural and common English endings."""
    cut = singular(word.lower())
    ending = next((end for end in ENDINGS if cut.endswith(end) and len(cut) - len(end) >= MIN_STEM), "")
    return cut[: len(cut) - len(ending)]


def stems(text: str) -> dict[str, str]:
    """Return the stems of a text's words, each with the word as it is first written there."""
    found: dict[str, str] = {}
    for word in WORD.findall(CAMEL.sub(" ", URN.sub(" ", text)).replace("_", " ")):
        lowered = word.lower()
        if len(word) >= MIN_WORD and lowered not in STOP_WORDS and not word.isdigit():
            found.setdefault(stem(word), word)
    return found


def telling(text: str) -> dict[str, str]:
    """Return the stems of the words of a sentence that may tell what it is about."""
    found = {key: word for key, word in stems(text).items() if word.lower() not in COMMON}
    return dict(list(found.items())[:MAX_WORDS])


def identifiers(text: str) -> set[str]:
    """Return the words with underscores of a text, in lower case: names that are written as in a schema."""
    words: Iterable[str] = (word.strip("`'\".,;:()[]") for word in text.split())
    return {word.lower() for word in words if "_" in word.strip("_")}
