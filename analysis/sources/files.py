"""File sources below ANALYSIS_FILES: CSV, TSV, JSON lines, and Parquet if pyarrow is installed."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, TextIO

from django.conf import settings

from analysis.sources.decimal_sign import comma_columns, plain, unsure_number
from analysis.sources.declaration import Resource
from analysis.sources.envelopes import PageOf, Row
from analysis.sources.interface import UpstreamFailed
from analysis.sources.messages import without_private
from analysis.sources.text_format import detect_encoding, layout, sample_rows

csv.field_size_limit(10_000_000)


MORE = "_more"  # field with the values of a CSV row that has more of them than the header


@dataclass(frozen=True)
class FileEntry:
    """A row of the file, or None with the reason why it can't be read. `irregularity` says how it differs."""

    row: Row | None
    problem: str = ""
    irregularity: str = ""


def _open(path: Path, encoding: str, newline: str) -> TextIO:
    name = codecs.lookup(encoding).name
    return open(path, newline=newline, encoding="utf-8-sig" if name == "utf-8" else name, errors="replace")


class FileUpstream:
    """Pages of a file. A cursor is the number of rows before the page."""

    at_once = 1

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        root = Path(settings.ANALYSIS_FILES).resolve()
        self._path = (root / resource.path).resolve()
        if not self._path.is_relative_to(root):
            raise UpstreamFailed(f"the file of {resource.name} lies outside of ANALYSIS_FILES")
        if not self._path.is_file():
            raise UpstreamFailed(f"the file of {resource.name} is missing below ANALYSIS_FILES")
        self._private = (str(self._path), str(root / resource.path), str(root), resource.path)
        # Reading continues where the page before ended, since reading each page from the start takes quadratic time.
        self._entries: Iterator[FileEntry] = iter(())
        self._ahead: list[FileEntry] = []  # the first entry of the next page
        self._position = -1  # number of entries before it
        self._format = ""

    def page(self, number: int, per_page: int, filters: Mapping[str, Any], cursor: str = "") -> PageOf:
        start = int(cursor) if cursor else (number - 1) * per_page
        try:
            if start != self._position:
                self.close()
                self._entries = self._read(start)
                self._ahead = list(islice(self._entries, 1))
            entries = [*self._ahead, *islice(self._entries, per_page - len(self._ahead))]
            self._ahead = list(islice(self._entries, 1))
            self._position = start + len(entries)
        except (OSError, ValueError, csv.Error) as error:
            self._position = -1
            # The messages of the system and of Parquet's reader have the path.
            problem = getattr(error, "strerror", "") or without_private(str(error), self._private)
            raise UpstreamFailed(f"the file of {self.resource.name} can't be read: {problem}") from None
        return PageOf(
            [entry.row for entry in entries if entry.row is not None],
            cursor=str(self._position) if self._ahead else "",
            skipped=[entry.problem for entry in entries if entry.row is None],
            irregular=[entry.irregularity for entry in entries if entry.irregularity],
            format=self._format,
        )

    def _read(self, start: int = 0) -> Iterator[FileEntry]:
        match self._path.suffix.lower():
            case ".csv" | ".tsv":
                return self._read_csv(start)
            case ".jsonl" | ".ndjson":
                return self._read_json_lines(start)
            case ".parquet":
                return (FileEntry(row) for row in islice(_parquet(self._path), start, None))
            case suffix:
                raise UpstreamFailed(
                    f"{suffix or 'a file without suffix'} can't be read; allowed: csv, tsv, jsonl, ndjson, parquet"
                )

    def _read_csv(self, start: int) -> Iterator[FileEntry]:
        encoding = self.resource.encoding or detect_encoding(self._path)
        stated = self.resource.delimiter or ("\t" if self._path.suffix.lower() == ".tsv" else "")
        delimiter, skip = layout(self._path, encoding, stated)
        skip = skip if self.resource.skip is None else self.resource.skip
        declared = self.resource.encoding and self.resource.delimiter
        self._format = f"read as CSV with the delimiter {delimiter!r} and the encoding {encoding}"
        self._format += f", after {skip} rows before the header" if skip else ""
        sign, places = self._decimal_sign(sample_rows(self._path, encoding, delimiter, skip))
        self._format += "" if declared else "; declare `delimiter` and `encoding` if this is wrong"
        with _open(self._path, encoding, newline="") as handle:
            table = islice(_csv_rows(handle, delimiter), skip, None)
            names = _column_names(next(table, _CsvRow([], 0)).values)
            kept = names.index(self.resource.id_field) if self.resource.id_field in names else -1  # 1.001 is not 1001
            for row in islice(table, start, None):
                values = row.values
                if sign:
                    values = [
                        plain(value, sign) if place != kept and (places is None or place in places) else value
                        for place, value in enumerate(row.values)
                    ]
                yield _csv_entry(names, values, row)

    def _decimal_sign(self, sample: Sequence[Sequence[str]]) -> tuple[str, set[int] | None]:
        """Return the decimal sign, and the places of the columns whose numbers have it; None means all columns.

        What is not declared is added to the description of the format.
        """
        if self.resource.decimal:
            return self.resource.decimal, None
        places = comma_columns(sample)
        if places:
            self._format += "; numbers have decimal commas (declare `decimal` if not)"
        if value := unsure_number(sample, known=places):
            self._format += f"; {value} was read with a decimal point (declare `decimal` = ',' if not)"
        return (",", places) if places else ("", None)

    def _read_json_lines(self, start: int) -> Iterator[FileEntry]:
        encoding = self.resource.encoding or detect_encoding(self._path)
        self._format = f"read as JSON lines with the encoding {encoding}"
        # Only a line feed ends a line: texts may contain the other characters that end lines elsewhere.
        with _open(self._path, encoding, newline="\n") as handle:
            lines = ((number, line) for number, line in enumerate(handle, start=1) if line.strip())
            for number, line in islice(lines, start, None):
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    yield FileEntry(None, f"line {number} is not valid JSON ({str(error)[:80]})")
                else:
                    yield FileEntry(row if isinstance(row, dict) else {"value": row})

    def close(self) -> None:
        self._entries = iter(())
        self._ahead = []
        self._position = -1

    def children(self, parent_id: str, path: str, number: int, per_page: int, cursor: str = "") -> PageOf:
        raise UpstreamFailed("a file has no nested resources")

    def read(self, record_id: str) -> Row | None:
        rows = (entry.row for entry in self._read() if entry.row is not None)
        return next((row for row in rows if str(row.get(self.resource.id_field)) == record_id), None)

    def update(self, record_id: str, attributes: Mapping[str, Any]) -> int:
        raise UpstreamFailed("files are read-only")

    def delete(self, record_id: str) -> int:
        raise UpstreamFailed("files are read-only")


def _column_names(header: Sequence[str]) -> list[str]:
    """Return distinct names: the second `a` becomes `a_2`, and an empty third name `column_3`."""
    names: list[str] = []
    for place, given in enumerate(header, start=1):
        name = base = given.strip("\ufeff \t\r\n") or f"column_{place}"
        count = 1
        while name in names:
            count += 1
            name = f"{base}_{count}"
        names.append(name)
    return names


MAX_UNCLOSED = 50  # quotation marks that are never closed; after them, all are read as characters


@dataclass(frozen=True)
class _CsvRow:
    values: list[str]
    line: int  # number of its last line
    is_unclosed: bool = False  # a quotation mark that is never closed was read as a character


def _csv_rows(handle: TextIO, delimiter: str) -> Iterator[_CsvRow]:
    """Yield the rows of a file except blank ones.

    A quotation mark that is never closed, or only by one that opens another value, would swallow the lines after it.
    Its line is read again without quotation marks, and the lines after it as usual.
    """
    lines = _Lines(handle)
    unclosed = 0
    while not lines.has_ended:
        quote = '"' if unclosed < MAX_UNCLOSED else None
        reader = csv.reader(lines, delimiter=delimiter, quotechar=quote, strict=True)
        yield from _well_formed(reader, lines, reads_quotes_literally=quote is None)
        first, *following = lines.current or [""]
        if following:
            lines.put_back(following)
        is_unclosed = bool(following)
        unclosed += is_unclosed
        if values := next(csv.reader([first], delimiter=delimiter, quotechar=None if is_unclosed else quote), []):
            yield _CsvRow(values, lines.number, is_unclosed or _has_open_quote(first, delimiter))


def _has_open_quote(line: str, delimiter: str) -> bool:
    """Return whether a single line ends within quotation marks."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), None) is None and bool(line.strip())
    except csv.Error as error:
        return "unexpected end" in str(error)


def _well_formed(reader: Iterator[list[str]], lines: _Lines, *, reads_quotes_literally: bool) -> Iterator[_CsvRow]:
    """Yield rows until the file ends, or until one that is not well-formed, whose lines are left in `lines`."""
    while True:
        lines.current.clear()
        try:
            values = next(reader, None)
        except csv.Error:
            return
        if values is None:
            lines.current.clear()
            return
        if values:
            yield _CsvRow(values, lines.number, reads_quotes_literally and '"' in "".join(lines.current))


class _Lines(Iterator[str]):
    """The lines of a file, of which some can be put back."""

    def __init__(self, handle: TextIO) -> None:
        self._rest: Iterator[str] = iter(handle)
        self.current: list[str] = []  # lines of the current row
        self.number = 0
        self.has_ended = False

    def __next__(self) -> str:
        line = next(self._rest, None)
        if line is None:
            self.has_ended = True
            raise StopIteration
        self.number += 1
        self.current.append(line)
        return line

    def put_back(self, lines: Sequence[str]) -> None:
        self._rest = chain(lines, self._rest)
        self.has_ended = False
        self.number -= len(lines)


def _csv_entry(names: Sequence[str], values: Sequence[str], source: _CsvRow) -> FileEntry:
    row: Row = dict(zip_longest(names, values[: len(names)]))
    if len(values) > len(names):
        row[MORE] = list(values[len(names) :])
    differences = []
    if len(values) != len(names):
        differences.append(f"has {len(values)} values, not {len(names)}")
    if source.is_unclosed:
        differences.append("has a quotation mark that is never closed, which was read as a character")
    if any("\ufffd" in value for value in values):
        differences.append("has bytes that are not of the encoding, which were replaced")
    return FileEntry(row, irregularity=f"line {source.line} {' and '.join(differences)}" if differences else "")


def _parquet(path: Path) -> Iterator[Row]:
    try:
        from pyarrow import parquet  # noqa: PLC0415 - optional
    except ImportError:
        raise UpstreamFailed("Parquet needs the package pyarrow") from None
    for batch in parquet.ParquetFile(path).iter_batches():
        yield from batch.to_pylist()
