"""The decimal sign of the numbers in a text file, so that 1.234,56 is never read as a thousandth of what it says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest

WITH_COMMA = re.compile(r"[-+]?(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?")  # 1.234,56, 1234,56, 1.234, 1234
WITH_POINT = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")  # 1,234.56
# Numbers whose comma can't separate thousands: 3,5 or 1.234,567.
SURE_COMMA = re.compile(r"[-+]?(?:\d{1,3}(?:\.\d{3})+,\d+|\d+,(?:\d{1,2}|\d{4,}))")
UNSURE_POINT = re.compile(r"[-+]?\d{1,3}\.\d{3}")  # 1.234
USUAL = 0.8  # minimum share of the values of a column; others may be footers or missing values


def comma_columns(rows: Iterable[Sequence[str]]) -> set[int]:
    """Return the places of the columns whose numbers have a decimal comma.

    A column proves it if most of its values are numbers with the comma as decimal sign, and one of them can't be read
    otherwise.
    """
    return {
        place
        for place, values in enumerate(_columns(rows))
        if _share(WITH_COMMA, values) >= USUAL and any(map(SURE_COMMA.fullmatch, values))
    }


def unsure_number(rows: Iterable[Sequence[str]]) -> str:
    """Return a number of a column of those like 1.234, which may mean a thousand or a little more than one, or ""."""
    columns = (values for values in _columns(rows) if _share(UNSURE_POINT, values) >= USUAL)
    return next((value for values in columns for value in values if UNSURE_POINT.fullmatch(value)), "")


def _columns(rows: Iterable[Sequence[str]]) -> Iterable[list[str]]:
    for cells in zip_longest(*rows, fillvalue=""):
        yield [stripped for cell in cells if (stripped := cell.strip())]


def _share(pattern: re.Pattern[str], values: Sequence[str]) -> float:
    return sum(map(bool, map(pattern.fullmatch, values))) / len(values) if values else 0.0


def plain(cell: str, sign: str) -> str:
    """Return a number as programs write it, and any other text unchanged. `sign` is the decimal sign of the file."""
    number = cell.strip()
    if sign == "," and WITH_COMMA.fullmatch(number):
        return number.replace(".", "").replace(",", ".")
    if sign == "." and WITH_POINT.fullmatch(number):
        return number.replace(",", "")
    return cell
