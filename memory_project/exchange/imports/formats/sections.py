"""Splitting of long Markdown texts at their headings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from markdown_it import MarkdownIt

from foundation.operations.fields import CONTENT_MAX
from memory_project.exchange.imports.formats.memory_rows import split_text

MAX_LINES = 20_000  # The parser needs up to two kilobytes per line. A longer text is only divided at blank lines.
MAX_TITLE = 150  # characters of a heading that is repeated


@dataclass(frozen=True)
class Heading:
    line: int
    end: int  # the line after it
    level: int
    title: str


@dataclass(frozen=True)
class SectionPart:
    titles: tuple[str, ...]  # of the headings around and above the part, outermost first
    line: int  # number of its first line, from 1
    content: str


def split_at_headings(text: str, limit: int = CONTENT_MAX) -> list[SectionPart]:
    """Return the text as parts of at most `limit` characters.

    A section is only divided if it is too long, at the headings of its next level, then at blank lines. Each part
    begins with the headings above it, so that it can be understood on its own.
    """
    if len(text) <= limit:
        return [SectionPart((), 1, text.strip())]
    text = re.sub(r"\r\n?", "\n", text)  # as the parser does, which counts lines
    lines = text.split("\n")
    headings = _headings(text) if len(lines) <= MAX_LINES else []
    return list(_parts(lines, 0, len(lines), headings, (), limit))


@cache
def _parser() -> MarkdownIt:
    # Only what decides which lines are headings: no inline markup, whose parsing takes long for some texts.
    parser = MarkdownIt("commonmark")
    parser.core.ruler.enableOnly(["normalize", "block"])
    parser.block.ruler.enableOnly(["code", "fence", "heading", "lheading", "html_block", "paragraph"])
    return parser


def _headings(text: str) -> list[Heading]:
    tokens = _parser().parse(text)
    return [
        Heading(token.map[0], token.map[1], int(token.tag[1:]), " ".join(content.content.split()))
        for token, content in pairwise(tokens)
        if token.type == "heading_open" and token.map
    ]


def _parts(
    lines: Sequence[str],
    start: int,
    end: int,
    headings: Sequence[Heading],
    above: tuple[Heading, ...],
    limit: int,
) -> Iterator[SectionPart]:
    """Yield the parts of the lines from `start` to before `end`, which `headings` divide."""
    repeated = "\n".join(f"{'#' * heading.level} {heading.title[:MAX_TITLE]}" for heading in above)
    prefix = f"{repeated}\n\n" if above else ""
    content = "\n".join(lines[start:end]).strip()
    titles = tuple(heading.title for heading in above)
    number = next((line + 1 for line in range(start, end) if lines[line].strip()), start + 1)
    first = headings[0] if headings and headings[0].line == start else None
    is_section = first is not None and all(heading.level > first.level for heading in headings[1:])
    if len(content) <= limit - len(prefix):
        if content:
            yield SectionPart((*titles, first.title) if first and is_section else titles, number, prefix + content)
    elif first and is_section:
        # A heading that is too long to be repeated stays in the text.
        below = start if len(first.title) > MAX_TITLE else first.end
        yield from _parts(lines, below, end, headings[1:], (*above, first), limit)
    elif not headings:
        for piece in split_text(content, limit - len(prefix)):
            yield SectionPart(titles, number, prefix + piece)
    else:
        for low, high, inner in _divided(start, end, headings):
            yield from _parts(lines, low, high, inner, above, limit)


def _divided(start: int, end: int, headings: Sequence[Heading]) -> Iterator[tuple[int, int, Sequence[Heading]]]:
    """Yield first line, end and headings of each section on the highest level, and of what precedes it."""
    top = min(heading.level for heading in headings)
    borders = [number for number, heading in enumerate(headings) if heading.level == top]
    yield start, headings[0].line, ()
    for number, following in pairwise([0, *borders, len(headings)]):
        last = headings[following].line if following < len(headings) else end
        yield headings[number].line, last, headings[number:following]
