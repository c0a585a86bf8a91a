"""The part of a long text that a result list shows: where the words of the query are."""

from __future__ import annotations

import re

MAX_CHARS = 280  # a card has three lines
BEFORE = 60  # maximum number of characters shown before the first marked word
MAX_MATCHES = 200  # maximum number of marked words that are looked at


def words_of(query: str) -> re.Pattern[str] | None:
    """Return a pattern for the query's words and for longer words that begin with one. Returns None without words."""
    # Short words such as “of” occur everywhere. They are marked only if the query has no word of four or more letters.
    query_words = re.findall(r"\w{4,}", query) or re.findall(r"\w{2,}", query)
    patterns = [re.escape(word) for word in query_words][:20]
    return re.compile(rf"(?i)(?<!\w)((?:{'|'.join(patterns)})\w*)") if patterns else None


def excerpt(text: str, query: str, passage: tuple[int, int] | None = None) -> str:
    """Return the part of the text with the most words of the query, with "…" where text is left out.

    `passage` is the part that matches best by meaning. It is shown if it contains a word of the query, or if nothing
    else does.
    """
    if len(text) <= MAX_CHARS:
        return text
    pattern = words_of(query)
    start, stop = passage or (0, len(text))
    if pattern and passage and not pattern.search(text, start, stop):
        start = 0
        stop = len(text)
    found = (
        [m for _, m in zip(range(MAX_MATCHES), pattern.finditer(text, start, stop), strict=False)] if pattern else []
    )
    if found:
        first = max(found, key=lambda match: len(_words_from(match.start(), found)))
        start = max(start, first.start() - BEFORE)
    elif passage:
        start, stop = passage
    begin = _word_start(text, start)
    end = min(stop, begin + MAX_CHARS)
    end = _word_end(text, end)
    return f"{'… ' if begin else ''}{text[begin:end].strip()}{' …' if end < len(text) else ''}"


def _words_from(start: int, found: list[re.Match[str]]) -> set[str]:
    """Return the different words found in the excerpt that begins shortly before `start`."""
    return {match[0].casefold() for match in found if start <= match.start() <= start - BEFORE + MAX_CHARS}


def _word_start(text: str, position: int) -> int:
    if not position or text[position - 1].isspace():
        return position
    space = text.find(" ", position, position + BEFORE // 2)
    return space + 1 if space >= 0 else position


def _word_end(text: str, position: int) -> int:
    if position >= len(text) or text[position].isspace():
        return position
    space = text.rfind(" ", position - BEFORE // 2, position)
    return space if space > 0 else position
