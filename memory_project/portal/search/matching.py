"""Matches of the palette, and how well a name matches the letters that were typed."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

WORDS = re.compile(r"[^\W_]+")
# Scores of the ways in which a name can match, best first. Matches of different kinds are compared by them.
SAME, LAST_PART, BEGINS, WORDS_BEGIN, INITIALS, CONTAINS, OTHER_WORDS = 100, 90, 80, 65, 55, 45, 35
# Long texts contain many words, so they are compared by their rank: the best of them comes after names that contain the
# text as words, and before all other names.
BEST_TEXT, TEXT_STEP = 60, 4
MAX_FOCUS = 9  # added to WORDS_BEGIN if the name has no other words


@dataclass(frozen=True)
class RowMatch:
    """Something that can be chosen. `key` identifies it for the browser's memory of earlier choices.

    Two matches with the same `target` lead to the same thing. `words` are searched, but not shown. If `click` is set,
    the choice clicks this element of the page instead of following `link`.
    """

    key: str
    label: str
    link: str
    hint: str = ""
    score: float = 0
    target: str = ""
    words: str = ""
    click: str = ""

    def with_score(self, points: float) -> RowMatch:
        return replace(self, score=points)


def score(name: str, text: str, other_words: str = "") -> float:
    """Return how well `name` matches, from 0 to 100. `other_words` are terms under which it is known, too."""
    name = name.casefold()
    text = text.casefold().strip()
    wanted = WORDS.findall(text)
    if not wanted:
        return CONTAINS if text and text in name else 0
    if name == text:
        return SAME
    if name.endswith((f".{text}", f"/{text}")):
        return LAST_PART
    if name.startswith(text):
        return BEGINS
    words = WORDS.findall(name)
    if all(any(word.startswith(part) for word in words) for part in wanted):
        return WORDS_BEGIN + MAX_FOCUS * min(len(wanted) / len(words), 1)
    if len(text) > 1 and "".join(word[0] for word in words).startswith(text):
        return INITIALS
    if text in name:
        return CONTAINS
    known = f"{name} {other_words.casefold()}"
    return OTHER_WORDS if all(part in known for part in wanted) else 0
