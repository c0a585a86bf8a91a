"""Properties of the import formats that hold for any file."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from foundation.operations.errors import Invalid
from foundation.operations.fields import CONTENT_MAX
from memory_project.exchange.imports.formats import FORMATS
from memory_project.exchange.imports.formats.json_lines import read_lines
from memory_project.exchange.imports.formats.memory_rows import NO_VALUE, split_text
from memory_project.exchange.imports.formats.sections import split_at_headings
from memory_project.exchange.imports.rows import ImportedRow
from tests.memory_project.import_samples import SAMPLES

STORABLE = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=80)
# Parts that mean something to one of the readers
PIECES = st.sampled_from(
    ["---\n", "# A\n", "## B\n", "```\n", "===\n", "\n", "\r", '"', ",", ";", "\t", "content", "a: b\n", "- [x] y\n",
     "- r [[T]]\n", "text ", "[", "{", "}", "]", ":", '{"type":"entity"}', "null", "\ufeff", "\0", "ä", "word " * 900,
     "permalink: p\ntype: note\ntitle: t\n"]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=25).map("".join)
FILES = TEXTS.map(str.encode) | st.binary(max_size=300)


def has_value(text: str) -> bool:
    return text.strip() != "" and text.strip().lower() not in NO_VALUE


def read(name: str, content: bytes) -> list[ImportedRow]:
    try:
        return list(FORMATS[name].read(io.BytesIO(content), "sample"))
    except Invalid:
        return []


@pytest.mark.parametrize("name", sorted(SAMPLES))
@settings(max_examples=40)
@given(content=FILES)
def test_any_file_gives_rows_or_a_clear_error(name: str, content: bytes) -> None:
    FORMATS[name].recognizes(content, "sample")
    for row in read(name, content):
        assert bool(row.problem) != bool(row.data)
        assert row.place
        json.dumps(row.data, allow_nan=False).encode()
        for text in (row.place, row.key, row.problem):
            assert "\0" not in text
            text.encode()


@pytest.mark.parametrize(
    ("name", "file"), [(name, number) for name, files in sorted(SAMPLES.items()) for number in range(len(files))]
)
@settings(max_examples=15)
@given(data=st.data())
def test_a_damaged_sample_gives_rows_or_a_clear_error(name: str, file: int, data: st.DataObject) -> None:
    content = bytearray(SAMPLES[name][file][1])
    for position in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4)):
        content[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    read(name, bytes(content[: cut or None]))
    for form in FORMATS.values():
        form.recognizes(bytes(content[:cut]), SAMPLES[name][file][0])


@given(st.lists(st.tuples(STORABLE.filter(has_value), STORABLE), max_size=8), st.sampled_from([",", ";", "\t"]))
def test_every_row_of_a_csv_file_is_read(values: list[tuple[str, str]], delimiter: str) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerows([("content", "summary"), *values])
    found = read("csv", text.getvalue().encode())
    assert not [row for row in found if row.problem]
    assert [row.data["content"].lstrip("'") for row in found] == [content.strip().lstrip("'") for content, _ in values]


@given(st.lists(st.sampled_from([b'"a","b"', b"a,b", b"a,b,c", b'"a"b,c', b"\xff,b", b"a\0,b"]), min_size=1))
def test_every_line_of_a_csv_file_is_accounted_for(lines: list[bytes]) -> None:
    found = read("csv", b"content,tags\n" + b"\n".join(lines) + b"\n")
    assert [row.place for row in found] == [f"line {number}" for number in range(2, len(lines) + 2)]


@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line and line.strip()), max_size=8))
def test_every_line_of_json_lines_is_accounted_for(lines: list[bytes]) -> None:
    found = list(read_lines(io.BytesIO(b"\n".join(lines))))
    assert [line.number for line in found if line.number > 1] == list(range(2, len(lines) + 1))


@given(TEXTS, st.integers(20, 200))
def test_parts_of_a_text_hold_all_of_it(text: str, limit: int) -> None:
    parts = split_text(text, limit)
    assert all(0 < len(part) <= limit for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


@given(TEXTS)
@example("\r---\n---\n" + "word " * 1_000)  # the parser counts a single carriage return as the end of a line
def test_parts_of_a_note_hold_all_its_lines(text: str) -> None:
    parts = split_at_headings(text)
    assert all(len(part.content) <= CONTENT_MAX for part in parts)
    held = "\n".join(part.content for part in parts)
    words: list[Any] = re.sub("[#=-]", " ", text).split()
    assert set(words) <= set(re.sub("[#=-]", " ", held).split())
