"""Reading of the footer and the first rows of a Parquet file, without downloading the file.

The parts are written to a file of the same size at their own places. Everything else in it is a hole, which takes no
space, so DuckDB reads it like the whole file as long as it needs no other parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.sources.interface import UpstreamFailed
from analysis.sql.values import Bounds
from analysis.storage.formats import PARQUET
from analysis.storage.s3 import Bucket, ObjectHead
from foundation.operations.errors import Invalid, LimitReached

TAIL = 64_000  # bytes that are read first, in which most footers fit
ENDING = 8  # bytes after the footer: its length and PAR1
GAP = 64_000  # parts with fewer bytes between them are read at once
MAX_REQUESTS = 30  # for the parts of one file
NAMES_SHOWN = 50  # maximum number of columns that an error names
Ask = Callable[[dict[str, Any]], dict[str, Any]]  # sends a request to DuckDB (see analysis/sql/file_reading.py)


@dataclass(frozen=True)
class ParquetSource:
    """The object to read, and the local file for its parts."""

    bucket: Bucket
    key: str
    head: ObjectHead
    path: Path
    most_bytes: int

    def copy(self, start: int, length: int) -> None:
        data = self.bucket.read(self.key, start, length, self.head.etag)
        with self.path.open("r+b") as file:
            file.seek(start)
            file.write(data)


@dataclass(frozen=True)
class ParquetRows:
    result: dict[str, Any]  # as file_reading returns rows
    total_rows: int
    others: list[tuple[str, str]] = field(default_factory=list)  # names and types of the columns that were not read
    too_large: int = 0  # the number of columns among them that exceed the limit


def read(source: ParquetSource, ask: Ask, *, columns: Sequence[str], limit: int, bounds: Bounds) -> ParquetRows:
    """Return rows of the first row group, with these columns, or with the leading ones that fit in `most_bytes`.

    Raises Invalid for an unknown column or a file that is not Parquet, and LimitReached if its footer is too large.
    """
    footer = _copy_footer(source)
    layout = ask({"read": "layout", "path": str(source.path)})
    names: list[str] = layout["columns"]
    places = _places(names, columns)
    spans = _spans(layout["parts"], len(names), most_offset=source.head.size - ENDING - footer)
    fitting, parts = _fitting(places, spans, source.most_bytes - footer)
    if limit:
        for start, end in parts:
            source.copy(start, end - start)
    request = {"read": "rows", "format": "parquet", "path": str(source.path), "bounds": vars(bounds)}
    result = ask({**request, "columns": fitting, "limit": min(limit, layout["first_rows"])})
    shown = set(fitting[: len(result["columns"])])
    others = [pair for place, pair in enumerate(zip(names, layout["types"], strict=True)) if place not in shown]
    return ParquetRows(result, layout["num_rows"], others, len(places) - len(fitting))


def _copy_footer(source: ParquetSource) -> int:
    """Write the footer to the file, and return its number of bytes."""
    size = source.head.size
    invalid = Invalid("is not a Parquet file", field="key", allowed="another format")
    tail_length = min(size, TAIL)
    tail = source.bucket.read(source.key, size - tail_length, tail_length, source.head.etag)
    footer = int.from_bytes(tail[-ENDING:-4], "little")
    if size < 4 + ENDING or not tail.endswith(PARQUET) or footer > size - ENDING - 4:
        raise invalid
    if footer + ENDING > source.most_bytes:
        raise LimitReached(
            f"the footer of the Parquet file has {footer:,} bytes, more than {source.most_bytes:,} (parquet_bytes of "
            "the store)"
        )
    try:
        with source.path.open("wb") as file:
            file.truncate(size)
            file.write(PARQUET)
            file.seek(size - tail_length)
            file.write(tail)
    except OSError as error:  # such as a size that the file system can't have
        raise LimitReached(f"the Parquet file is too large to be read ({error.strerror})") from None
    if footer + ENDING > tail_length:
        source.copy(size - ENDING - footer, footer + ENDING - tail_length)
    return footer


def _places(names: Sequence[str], columns: Sequence[str]) -> list[int]:
    if unknown := [name for name in columns if name not in names]:
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        allowed = ", ".join(names[:NAMES_SHOWN]) + more
        raise Invalid(f"{unknown[0][:80]!r} is no column of the file", field="columns", allowed=allowed)
    return [names.index(name) for name in dict.fromkeys(columns)] if columns else list(range(len(names)))


def _spans(parts: Sequence[Sequence[Any]], count: int, *, most_offset: int) -> Mapping[int, list[tuple[int, int]]]:
    """Return the first byte and the byte after the last one of each leaf, by the place of its column."""
    spans = {
        place: [(start, start + length) for start, length in leaves] for place, leaves in enumerate(parts) if leaves
    }
    ends = [span for column in spans.values() for span in column]
    # A file without rows has no row group. In any other file, each column has parts.
    is_complete = len(parts) == count and (not ends or len(spans) == count)
    if not is_complete or any(not 0 < start <= end <= most_offset for start, end in ends):
        raise UpstreamFailed("the footer of the Parquet file is not valid")
    return spans


def _fitting(
    places: Iterable[int], spans: Mapping[int, list[tuple[int, int]]], room: int
) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the leading columns whose parts fit in `room` bytes and MAX_REQUESTS, and the ranges to read."""
    fitting: list[int] = []
    ranges: list[tuple[int, int]] = []
    for place in places:
        merged = _merged([*ranges, *spans.get(place, ())])
        if sum(end - start for start, end in merged) > room or len(merged) > MAX_REQUESTS:
            break
        fitting.append(place)
        ranges = merged
    return fitting, ranges


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1] + GAP:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged
