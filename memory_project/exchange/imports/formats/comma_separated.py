"""CSV and TSV files with a header, one memory per row."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from analysis.sources.text_format import MAX_TITLES, SEPARATOR_LINE, delimiter_of
from foundation.downloads.csv_lines import FORMULA
from foundation.operations.errors import Invalid
from memories.operations import MEMORY_CELLS
from memory_project.exchange.imports.formats import own_export
from memory_project.exchange.imports.formats.memory_rows import NO_VALUE, comma_list, memory_row, problem_row
from memory_project.exchange.imports.rows import ImportedRow

# “id” names the row, so that a later version of it is recognized. The other columns are fields of a memory.
COLUMNS = (
    "content", "summary", "dimension", "category", "confidence", "source", "visibility", "tags", "entities",
    "created_at", "id", *MEMORY_CELLS,
)  # fmt: skip
VERBATIM = {"content", "summary", "created_at", "id", *MEMORY_CELLS}  # values whose case counts
DELIMITERS = ",;\t"
JSON_COLUMNS = {"tags", "entity_urns", "related_columns", "metadata"}  # in an export of this program
HEADER = re.compile(r'(?:^|[,;\t]) *"?content"? *(?:[,;\t\r\n]|$)', re.IGNORECASE)
MAX_ROW = 200_000  # characters. A quote that is never closed would otherwise swallow the rest of the file.
WIDE_ENCODINGS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)  # UTF-32's other BOM begins like one
TAB_EXTENSIONS = (".tsv", ".tab")
EXTENSIONS = (".csv", *TAB_EXTENSIONS)
NOT_UTF8 = re.compile("[\udc80-\udcff]")  # how the decoder marks bytes that aren't UTF-8
ENCODING = "is not encoded in UTF-8"


class RowTooLong(Exception):
    pass


class Lines(Iterator[str]):
    """The lines of a text file. After an error, the next line can still be read."""

    def __init__(self, file: BinaryIO) -> None:
        self.text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
        self.count = 0
        self.row_length = 0  # characters of the lines of the current row
        self.ends_in_a_line = False  # whether the last line has no line break

    def __next__(self) -> str:
        line = self.text.readline(MAX_ROW)
        if not line:
            raise StopIteration
        self.count += 1
        while len(line) == MAX_ROW and not line.endswith(("\n", "\r")):  # a part of a line
            self.row_length += MAX_ROW
            line = self.text.readline(MAX_ROW)
        self.ends_in_a_line = not line.endswith(("\n", "\r"))
        self.row_length += len(line)
        if self.row_length >= MAX_ROW:
            raise RowTooLong(f"has more than {MAX_ROW:,} characters")
        return line


def read(file: BinaryIO, name: str) -> Iterator[ImportedRow]:
    """Yield a row for each row of the file except blank ones.

    Raises Invalid if the file isn't encoded in UTF-8 or its header has no column “content” or an unknown one.
    """
    lines = Lines(file)
    try:
        delimiter, names = _header(*_header_line(lines), name)
        yield from _rows(lines, delimiter, names)
    except RowTooLong as error:  # of the header
        raise Invalid(str(error), field="file", allowed="CSV with a header") from None
    finally:
        lines.text.detach()  # closing the wrapper would close the caller's file


def _header_line(lines: Lines) -> tuple[str, str]:
    """Return the line with the names of the columns, and the delimiter that a line `sep=;` before it states.

    Titles may stand above it. If none of the first lines has the column "content", it is the first that isn't blank.
    """
    stated = ""
    first = ""
    titles = 0
    for line in lines:
        if separator := SEPARATOR_LINE.fullmatch(line.strip("\r\n")):
            stated = separator[1]
        elif line.strip(" \t\r\n,;"):
            first = first or line
            if HEADER.search(line):
                return line, stated
            titles += 1
            if titles > MAX_TITLES:
                break
    return first, stated


def _header(line: str, stated: str, name: str) -> tuple[str, list[str]]:
    start = line[:4].encode("utf-8", "surrogateescape")
    if start.startswith(WIDE_ENCODINGS) or NOT_UTF8.search(line) or "\0" in line:
        raise Invalid(ENCODING, field="file", allowed="CSV saved as UTF-8")
    try:
        is_tabs = name.lower().endswith(TAB_EXTENSIONS)
        delimiter = stated or ("\t" if is_tabs else delimiter_of([line], DELIMITERS))
        cells = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error as error:
        raise Invalid(f"can't be read as CSV ({error})", field="file") from None
    names = [cell.strip().lower() for cell in cells]
    while names and not names[-1]:  # spreadsheet programs append empty columns
        names.pop()
    allowed = ", ".join(COLUMNS)
    if "content" not in names:
        raise Invalid("has no column “content” in its first line", field="file", allowed=allowed)
    unknown = [column for column in names if column not in COLUMNS]
    if unknown and not set(names) >= own_export.KEYS:
        raise Invalid(f"has the unknown column {unknown[0][:40]!r}", field="file", allowed=allowed)
    if twice := [column for column in names if names.count(column) > 1]:
        raise Invalid(f"has the column {twice[0]!r} twice", field="file", allowed="each column once")
    return delimiter, names


def _rows(lines: Lines, delimiter: str, names: Sequence[str]) -> Iterator[ImportedRow]:
    # strict, because otherwise a file that is cut within quotes would end without an error.
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    while True:
        start = lines.count + 1
        lines.row_length = 0
        try:
            cells = next(reader, None)
        except (csv.Error, RowTooLong) as error:
            # The reader continues with the next line, because it starts each row afresh.
            yield problem_row(_place(start, lines.count), f"can't be read as CSV ({error})")
            continue
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            if len(cells) < len(names) and lines.ends_in_a_line:
                yield problem_row(_place(start, lines.count), "ends with half a row; the file may have been cut")
            else:
                yield _row(_place(start, lines.count), cells, names)


def _place(first: int, last: int) -> str:
    return f"line {first}" if last <= first else f"lines {first} to {last}"


def _row(place: str, cells: Sequence[str], names: Sequence[str]) -> ImportedRow:
    if any(cell.strip() for cell in cells[len(names) :]):
        return problem_row(place, "has more values than the first line has columns")
    if NOT_UTF8.search("".join(cells)):
        return problem_row(place, ENCODING)
    if set(names) >= own_export.KEYS:
        return _own_row(place, dict.fromkeys(names, "") | dict(zip(names, cells, strict=False)))
    data: dict[str, Any] = {}
    for name, cell in zip(names, cells, strict=False):
        value = _without_escape(cell.strip())
        if value.lower() in NO_VALUE:
            continue
        if name == "tags":
            data["tags"] = [tag for part in comma_list(value).replace(";", ",").split(",") if (tag := part.strip())]
        elif name == "entities":
            # URNs contain commas, so only semicolons and spaces separate entities.
            data["entity_urns"] = value.replace(";", " ").split()
        else:
            data[name] = value if name in VERBATIM else value.lower()
    return memory_row(place, data, key=data.pop("id", ""))


def _own_row(place: str, cells: dict[str, str]) -> ImportedRow:
    values: dict[str, Any] = {name: _without_escape(cell) for name, cell in cells.items()}
    for name in JSON_COLUMNS & cells.keys():
        try:
            values[name] = json.loads(cells[name]) if cells[name] else None
        except (ValueError, RecursionError):
            return problem_row(place, f"{name}: can't be read as JSON", key=cells["id"])
    return own_export.own_row(place, values["content"], values)


def _without_escape(value: str) -> str:
    """Remove the apostrophe with which exports protect texts that a spreadsheet program would run as formulas."""
    return value[1:] if value.startswith("'") and value[1:].startswith(FORMULA) else value


def recognizes(start: bytes, name: str) -> bool:
    if name.lower().endswith((".md", ".markdown")):  # a note may consist of the word “content”
        return False
    try:
        _header(*_header_line(Lines(io.BytesIO(start))), name)
    except (Invalid, RowTooLong):
        return False
    return True
