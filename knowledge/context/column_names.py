"""Names of tables and columns as texts mention them: word for word, or by their words."""

from __future__ import annotations

import re
from functools import cached_property, lru_cache

from knowledge.entities.call_subject import CAMEL, WORD, singular

TOKEN = re.compile(r"\w+")
# Parts of column names that say nothing about the column's subject.
FILLERS = frozenset({"by", "code", "date", "flag", "has", "id", "is", "key", "kind", "no", "nr", "num", "number"})
# The words of a column such as `closed_at` are ordinary ones: only its whole name counts.
MOMENT = re.compile(r"_(at|on|for|from|to|since|until|date|time)$", re.IGNORECASE)
# Columns that any table may have, as single words.
ORDINARY = frozenset({"date", "day", "hour", "month", "name", "period", "time", "value", "week", "year"})
IDENTIFIER = re.compile(r"(?<![\w.])(?=[a-z]\w*_\w)\w++(?!\()", re.IGNORECASE)
# Identifiers that so many tables have that they point to none.
COMMON = frozenset({
    "created_at", "created_by", "created_on", "deleted_at", "is_active", "is_deleted", "updated_at", "updated_by",
    "updated_on", "valid_from", "valid_to",
})  # fmt: skip


class Name:
    """A table, a column or a literal of a call, prepared for the comparison with texts."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lower = text.lower()
        self.is_token = TOKEN.fullmatch(text) is not None
        parts = [part.lower() for part in WORD.findall(CAMEL.sub(" ", text))]
        content = [part for part in parts if len(part) > 2 and part not in FILLERS]
        self.words = frozenset(map(singular, content))
        self.query = " ".join(content or parts)  # finds memories that may have all of its words
        self.is_common = self.lower in COMMON
        self.is_identifier = is_identifier(text)
        self.counts_by_words = bool(self.words) and not MOMENT.search(text)

    def is_in(self, text: str, tokens: set[str]) -> bool:
        """Return whether a text has the name word for word. `tokens` are those of the text. Cases must agree."""
        return self.text in tokens if self.is_token else has_word(text, self.text)

    def is_in_lower(self, lowered: str, tokens: set[str]) -> bool:
        """Return whether a text has the name word for word, both in lower case."""
        return self.lower in tokens if self.is_token else has_word(lowered, self.lower)

    @cached_property
    def spelled_out(self) -> re.Pattern[str]:
        """The name as words, as `search terms` for `search_terms`."""
        return _word_pattern(CAMEL.sub(" ", self.text).replace("_", " ").lower())


def is_identifier(name: str) -> bool:
    """Return whether a name is an unmistakable identifier, with an underscore, a digit or inner capitals."""
    return bool(re.search(r"_|\d|[a-z][A-Z]", name)) and len(name) > 2 and name.lower() not in COMMON


def has_word(text: str, word: str) -> bool:
    return _word_pattern(word).search(text) is not None


@lru_cache(maxsize=2_000)
def _word_pattern(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
