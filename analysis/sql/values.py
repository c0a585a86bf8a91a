"""Rows of a warehouse as JSON values within limits of rows and bytes.

Imports no Django, because the processes that run statements on DuckDB load it, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from datetime import time as clock_time
from decimal import Decimal
from typing import Any
from uuid import UUID

from foundation.tools.shortening import MARK, Shortener

MAX_CELL = 2_000  # maximum number of characters of one text value
MAX_NAME = 200  # the same for a column's name
MAX_EXACT = 2**53 - 1  # the largest integer that is exact in JSON numbers of every client


@dataclass(frozen=True)
class Bounds:
    rows: int
    bytes: int  # of the names and rows together
    text: int = MAX_CELL  # characters of one text value


class Beginning(str):
    """The beginning of a larger value, with its size."""


@dataclass(frozen=True)
class SqlResult:
    """The leading rows of a query's result.

    `is_cut` means that there are more rows. `shortened` names the columns with values that lack a part, and
    `columns_left_out` is the number of columns at the end that lack altogether.
    """

    columns: list[str]
    rows: list[list[Any]]
    is_cut: bool = False
    shortened: list[str] = field(default_factory=list)
    columns_left_out: int = 0


def bounded(names: Sequence[str], rows: Iterable[Sequence[Any]], bounds: Bounds) -> SqlResult:
    """Read rows until a limit of `bounds` is reached. The first row is always returned, if need be with shorter values.

    Rows should be an iterator that fetches one at a time, because it is not read further.
    """
    columns = _columns(names, bounds.bytes // 2)
    room = bounds.bytes - _size(columns)
    room_per_value = max(room // max(len(columns), 1) - 10, 20)
    shown: list[list[Any]] = []
    shortened: dict[int, None] = {}
    is_cut = False
    for row in rows:
        if len(shown) == bounds.rows:
            is_cut = True
            break
        values = []
        cut_places = []
        for place, value in enumerate(row[: len(columns)]):
            max_text = len(value) if isinstance(value, Beginning) else bounds.text
            shortener = Shortener(room_per_value, max_text, plain)
            values.append(shortener.copy(value))
            if shortener.left_out or isinstance(value, Beginning):
                cut_places.append(place)
        room -= _size(values) + 2
        if room < 0 and shown:
            is_cut = True
            break
        shown.append(values)
        shortened |= dict.fromkeys(cut_places)
    return SqlResult(columns, shown, is_cut, [columns[place] for place in sorted(shortened)], len(names) - len(columns))


def _columns(names: Sequence[str], room: int) -> list[str]:
    columns = [name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + MARK for name in names]
    fitting = 0
    for fitting, name in enumerate(columns):
        # Each column also takes bytes in every row.
        room -= _size(name) + 30
        if room < 0:
            return columns[:fitting]
    return columns


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass"))


def plain(value: Any) -> Any:
    """Convert a database value, but not the values in it, to a JSON value.

    Decimals, times, NaN, infinity and integers beyond MAX_EXACT become texts without loss. Binary values become
    hexadecimal texts.
    """
    if value is None or isinstance(value, bool | str | Mapping):
        return value
    if isinstance(value, int):
        return value if abs(value) <= MAX_EXACT else str(value)
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, datetime | date | clock_time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID | timedelta):
        return str(value)
    if type(value).__name__ == "relativedelta":  # Trino's INTERVAL YEAR TO MONTH
        return f"{12 * value.years + value.months} months"
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return value if isinstance(value, Sequence) else str(value)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
