"""File sources below ANALYSIS_FILES: CSV, TSV, JSON lines, and Parquet if pyarrow is installed."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from django.conf import settings

from analysis.sources.declaration import Resource
from analysis.sources.envelopes import PageOf, Row
from analysis.sources.interface import UpstreamFailed

csv.field_size_limit(10_000_000)


class FileUpstream:
    """Pages of a file. A cursor is the number of rows before the page."""

    at_once = 1

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        root = Path(settings.ANALYSIS_FILES).resolve()
        self._path = (root / resource.path).resolve()
        if not self._path.is_relative_to(root):
            raise UpstreamFailed("the file lies outside of ANALYSIS_FILES")
        if not self._path.is_file():
            raise UpstreamFailed(f"there is no file {resource.path}")

    def page(self, number: int, per_page: int, filters: Mapping[str, Any], cursor: str = "") -> PageOf:
        start = int(cursor) if cursor else (number - 1) * per_page
        try:
            rows = list(islice(self._rows(), start, start + per_page + 1))
        except (OSError, ValueError, csv.Error) as error:
            raise UpstreamFailed(f"{self.resource.path} can't be read: {error}") from None
        return PageOf(rows[:per_page], cursor=str(start + per_page) if len(rows) > per_page else "")

    def _rows(self) -> Iterator[Row]:
        match self._path.suffix.lower():
            case ".csv" | ".tsv":
                with open(self._path, newline="", encoding="utf-8-sig", errors="replace") as handle:
                    yield from csv.DictReader(handle, delimiter="\t" if self._path.suffix == ".tsv" else ",")
            case ".jsonl" | ".ndjson":
                with open(self._path, encoding="utf-8", errors="replace") as handle:
                    for line in handle:
                        if line.strip():
                            row = json.loads(line)
                            yield row if isinstance(row, dict) else {"value": row}
            case ".parquet":
                yield from _parquet(self._path)
            case suffix:
                raise UpstreamFailed(
                    f"{suffix or 'a file without suffix'} can't be read; allowed: csv, tsv, jsonl, ndjson, parquet"
                )

    def close(self) -> None:
        pass

    def children(self, parent_id: str, path: str, number: int, per_page: int, cursor: str = "") -> PageOf:
        raise UpstreamFailed("a file has no nested resources")

    def read(self, record_id: str) -> Row | None:
        field = self.resource.id_field
        return next((row for row in self._rows() if str(row.get(field)) == record_id), None)

    def update(self, record_id: str, attributes: Mapping[str, Any]) -> int:
        raise UpstreamFailed("files are read-only")

    def delete(self, record_id: str) -> int:
        raise UpstreamFailed("files are read-only")


def _parquet(path: Path) -> Iterator[Row]:
    try:
        from pyarrow import parquet  # noqa: PLC0415 - optional
    except ImportError:
        raise UpstreamFailed("Parquet needs the package pyarrow") from None
    for batch in parquet.ParquetFile(path).iter_batches():
        yield from batch.to_pylist()
