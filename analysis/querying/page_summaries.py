"""One-line summaries of pages of records: value distributions, numeric statistics and date ranges.

Fields are collected from all rows, not only from the first. A field of mixed types gets a summary for each type.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

MAX_DISTINCT = 20  # maximum number of distinct values in a distribution; half the number of rows is a limit, too
TOP = 5
MAX_VALUE = 60  # maximum number of characters of a value in the text
MAX_FIELDS = 60
MAX_NUMBER = 1e100  # larger numbers are ignored, because their sums could overflow a float


@dataclass(frozen=True)
class Summary:
    text: str
    metadata: dict[str, Any]


@dataclass(frozen=True)
class SummaryColumn:
    counts: Counter[str]  # of texts, booleans and nulls
    numbers: list[float]
    dates: list[tuple[datetime, str, int]]  # time, the text that gives it, and the number of rows with this text
    is_nested: bool


def summarize(
    model: str,
    rows: Sequence[Mapping[str, Any]],
    page: int,
    total_pages: int | None,
    fields: Sequence[str],
    keys: frozenset[str],
) -> Summary:
    """Summarize a page, leaving out `keys`: statistics of identifiers are meaningless."""
    columns = _columns(rows, keys)
    distributions = {
        name: dict(column.counts.most_common(MAX_DISTINCT))
        for name, column in columns.items()
        if _has_distribution(column, len(rows))
    }
    numbers = {name: _numbers(column.numbers) for name, column in columns.items() if column.numbers}
    ranges = {name: _range(column.dates) for name, column in columns.items() if column.dates}
    suffix = f"/{total_pages}" if total_pages else ""
    parts = [f"Page {page}{suffix} of {model} records ({len(rows)} records)."]
    if fields:
        parts.append(f"Fields: {', '.join(fields)}.")
    if distributions:
        texts = (f"{name}: {_format_counts(counts)}" for name, counts in distributions.items())
        parts.append("Distribution: " + ". ".join(texts))
    if numbers:
        texts = (
            f"{name}: min={_format_number(n['min'])}, max={_format_number(n['max'])}, avg={_format_number(n['avg'])}, "
            f"median={_format_number(n['median'])}, n={n['n']}"
            for name, n in numbers.items()
        )
        parts.append("Numeric stats: " + ". ".join(texts))
    if ranges:
        texts = (f"{name}: {r['earliest']}..{r['latest']} ({r['n']} values)" for name, r in ranges.items())
        parts.append("Date ranges: " + ". ".join(texts))
    metadata = {
        "page": page,
        "model": model,
        "record_count": len(rows),
        "distributions": distributions,
        "numericStats": numbers,
        "dateRanges": ranges,
    }
    return Summary(" ".join(parts), metadata)


def _columns(rows: Sequence[Mapping[str, Any]], keys: frozenset[str]) -> dict[str, SummaryColumn]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    described = [name for name in names if name not in keys and not name.startswith("_")][:MAX_FIELDS]
    return {name: _column([row.get(name) for row in rows]) for name in described}


def _column(values: Sequence[Any]) -> SummaryColumn:
    kinds = set(map(type, values))
    texts = Counter([value for value in values if type(value) is str] if kinds - {str} else values)
    dates = [(moment, text, count) for text, count in texts.items() if (moment := _date(text))]
    numbers: list[float] = []
    if kinds & {int, float}:
        numbers = [float(value) for value in values if type(value) in (int, float) and abs(value) < MAX_NUMBER]
    if kinds & {bool, type(None)}:
        others = Counter([value for value in values if value is None or type(value) is bool])
        texts.update({"null" if value is None else str(value).lower(): count for value, count in others.items()})
    return SummaryColumn(texts, numbers, dates, bool(kinds & {dict, list}))


def _date(text: str) -> datetime | None:
    if len(text) < 10 or not text[:4].isdecimal() or text[4] != "-":
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)  # so that all values can be compared


def _has_distribution(column: SummaryColumn, rows: int) -> bool:
    distinct = len(column.counts)
    only_missing = column.numbers and set(column.counts) == {"null"}  # a numeric field with some missing values
    return not column.is_nested and not only_missing and 0 < distinct <= min(rows * 0.5, MAX_DISTINCT)


def _numbers(values: Sequence[float]) -> dict[str, Any]:
    return {
        "min": min(values),
        "max": max(values),
        "avg": round(statistics.fmean(values), 2),
        "median": statistics.median(values),
        "n": len(values),
    }


def _range(dates: Sequence[tuple[datetime, str, int]]) -> dict[str, Any]:
    return {"earliest": min(dates)[1], "latest": max(dates)[1], "n": sum(count for _, _, count in dates)}


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{_short(value)}={count}" for value, count in list(counts.items())[:TOP])


def _short(value: str) -> str:
    return value if len(value) <= MAX_VALUE else f"{value[: MAX_VALUE - 1]}…"


def _format_number(value: float) -> str:
    return f"{value:g}" if abs(value) < 1e6 else f"{value:.2f}".rstrip("0").rstrip(".")
