"""File sources below ANALYSIS_FILES: CSV, TSV, JSON lines, and Parquet if pyarrow is installed."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, TextIO

from django.conf import settings

from analysis.sources.declaration import Resource
from analysis.sources.envelopes import PageOf, Row
from analysis.sources.interface import UpstreamFailed
from analysis.sources.messages import without_private
from analysis.sources.text_format import detect_encoding, layout

csv.field_size_limit(10_000_000)


MORE = "_more"  # field with the values of a CSV row that has more of them than the header


@dataclass(frozen=True)
class Entry:
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
        self._entries: Iterator[Entry] = iter(())
        self._ahead: list[Entry] = []  # the first entry of the next page
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

    def _read(self, start: int = 0) -> Iterator[Entry]:
        match self._path.suffix.lower():
            case ".csv" | ".tsv":
                return self._read_csv(start)
            case ".jsonl" | ".ndjson":
                return self._read_json_lines(start)
            case ".parquet":
                return (Entry(row) for row in islice(_parquet(self._path), start, None))
            case suffix:
                raise UpstreamFailed(
                    f"{suffix or 'a file without suffix'} can't be read; allowed: csv, tsv, jsonl, ndjson, parquet"
                )

    def _read_csv(self, start: int) -> Iterator[Entry]:
        encoding = self.resource.encoding or detect_encoding(self._path)
        stated = self.resource.delimiter or ("\t" if self._path.suffix.lower() == ".tsv" else "")
        delimiter, skip = layout(self._path, encoding, stated)
        skip = skip if self.resource.skip is None else self.resource.skip
        declared = self.resource.encoding and self.resource.delimiter
        self._format = f"read as CSV with the delimiter {delimiter!r} and the encoding {encoding}"
        self._format += f", after {skip} rows before the header" if skip else ""
        self._format += "" if declared else "; declare `delimiter` and `encoding` if this is wrong"
        with _open(self._path, encoding, newline="") as handle:
            reader = csv.reader(handle, delimiter=delimiter)
            table = islice(filter(None, reader), skip, None)
            names = _column_names(next(table, []))
            for values in islice(table, start, None):
                yield _csv_entry(names, values, reader.line_num)

    def _read_json_lines(self, start: int) -> Iterator[Entry]:
        encoding = self.resource.encoding or detect_encoding(self._path)
        self._format = f"read as JSON lines with the encoding {encoding}"
        # Only a line feed ends a line: texts may contain the other characters that end lines elsewhere.
        with _open(self._path, encoding, newline="\n") as handle:
            lines = ((number, line) for number, line in enumerate(handle, start=1) if line.strip())
            for number, line in islice(lines, start, None):
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    yield Entry(None, f"line {number} is not valid JSON ({str(error)[:80]})")
                else:
                    yield Entry(row if isinstance(row, dict) else {"value": row})

    def close(self) -> None:
        self._entries, self._ahead, self._position = iter(()), [], -1

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
        name = base = given.strip() or f"column_{place}"
        count = 1
        while name in names:
            count += 1
            name = f"{base}_{count}"
        names.append(name)
    return names


def _csv_entry(names: Sequence[str], values: Sequence[str], line: int) -> Entry:
    row: Row = dict(zip_longest(names, values[: len(names)]))
    if len(values) > len(names):
        row[MORE] = list(values[len(names) :])
    is_regular = len(values) == len(names)
    return Entry(row, irregularity="" if is_regular else f"line {line} has {len(values)} values, not {len(names)}")


def _parquet(path: Path) -> Iterator[Row]:
    try:
        from pyarrow import parquet  # noqa: PLC0415 - optional
    except ImportError:
        raise UpstreamFailed("Parquet needs the package pyarrow") from None
    for batch in parquet.ParquetFile(path).iter_batches():
        yield from batch.to_pylist()
