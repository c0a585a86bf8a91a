"""Notes of basic-memory: Markdown whose list items hold observations and relations.

An observation is written as `- [category] text #tag (context)`, a relation as `- type [[note]] (context)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from memories.models import Dimension
from memory_project.exchange.imports.formats import markdown
from memory_project.exchange.imports.formats.memory_rows import problem_row, split_rows, tagged
from memory_project.exchange.imports.rows import ImportedRow

# A category is neither a check box ("x", " ", "-", "/" …) nor a time of a transcript, and no link.
OBSERVATION = re.compile(r"[ \t]*[-*+][ \t]+\[(?![xX\W]\])(?![\d:.,\s-]+\])([^\[\]()]+)\][ \t]+(\S.*)")
RELATION = re.compile(
    r"""[ \t]*[-*+][ \t]+(?:"([^"]+)"|'([^']+)'|([^\s\[]\S*))[ \t]+\[\[([^\[\]]+)\]\][ \t]*(?:\(([^()]*)\)[ \t]*)?"""
)
CONTEXT = re.compile(r"(.*\S)[ \t]+\(([^()]*)\)[ \t]*")
TAG = re.compile(r"(?:^|\s)#(\w[\w/-]*)")
FENCE = re.compile(r"[ \t]*(```|~~~)")
EMPTY_SECTION = re.compile(
    r"^#{1,6}[ \t]+(?:observations|relations)[ \t]*\n(?=\s*(?:^#|\Z))", re.IGNORECASE | re.MULTILINE
)


def read(file: BinaryIO, name: str) -> Iterator[ImportedRow]:
    """Yield memories for the observations, the relations and the remaining text of each note."""
    yield from markdown.read_files(file, name, rows_of)


def rows_of(path: str, text: str) -> Iterator[ImportedRow]:
    values, body = markdown.read_note(text)
    title = markdown.title_of(path, values)
    fields = markdown.note_fields(values)
    first_line = text[: len(text) - len(body)].count("\n") + 1
    rest: list[str] = []
    is_fenced = has_rows = False
    for number, line in enumerate(body.split("\n"), first_line):
        is_fenced ^= bool(FENCE.match(line))
        data = None if is_fenced else _observation(title, line) or _relation(title, line)
        if data is None:
            rest.append(line)
            continue
        has_rows = True
        metadata = {"basic_memory": {"note": title, "permalink": values.get("permalink"), **data.pop("metadata")}}
        tags = tagged([*fields["tags"], *data.pop("tags", [])], metadata)
        yield from split_rows(f"{path}, line {number}", {**fields, **data, **tags})
    prose = _prose([*rest, ""])
    if prose:
        yield from markdown.section_rows(path, markdown.titled(prose, title), fields, key=path)
    elif not has_rows:
        yield problem_row(path, "has no text", key=path)


def _observation(title: str, line: str) -> dict[str, Any] | None:
    match = OBSERVATION.fullmatch(line)
    if not match:
        return None
    category = match[1].strip()
    text = match[2].strip()
    context = ""
    if with_context := CONTEXT.fullmatch(text):
        text = with_context[1]
        context = with_context[2].strip()
    metadata = {"category": category, "context": context}
    content = f"{title}: {text} ({context})" if context else f"{title}: {text}"
    return {"content": content, "tags": TAG.findall(text), "metadata": metadata}


def _relation(title: str, line: str) -> dict[str, Any] | None:
    match = RELATION.fullmatch(line)
    if not match:
        return None
    kind = match[1] or match[2] or match[3]
    target = match[4].strip()
    context = (match[5] or "").strip()
    content = f"{title} {kind.replace('_', ' ')} {target}"
    metadata = {"relation_type": kind, "to": target, "context": context}
    return {
        "content": f"{content} ({context})" if context else content,
        "dimension": Dimension.RELATIONSHIP.value,
        "metadata": metadata,
    }


def _prose(lines: list[str]) -> str:
    """Return the text without the headings of sections that only held observations or relations."""
    text = EMPTY_SECTION.sub("", "\n".join(lines)).strip()
    is_only_headings = all(line.startswith("#") for line in text.split("\n") if line.strip())
    return "" if is_only_headings else text


def recognizes(start: bytes, name: str) -> bool:
    return markdown.has_permalinks(start, name)
