"""The decimal sign of the numbers in a text file, so that 1.234,56 is never read as a thousandth of what it says."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from itertools import zip_longest

WITH_COMMA = re.compile(r"[-+]?(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?")  # 1.234,56, 1234,56, 1.234, 1234
WITH_POINT = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")  # 1,234.56
# Numbers whose comma can't separate thousands: 3,5 or 1.234,567.
SURE_COMMA = re.compile(r"[-+]?(?:\d{1,3}(?:\.\d{3})+,\d+|\d+,(?:\d{1,2}|\d{4,}))")
# Numbers whose point can't separate thousands: 3.5, 0.125 or 1234.567.
SURE_POINT = re.compile(r"[-+]?(?:0\d*\.\d+|\d+\.(?:\d{1,2}|\d{4,})|\d{4,}\.\d+|\.\d+)")
UNSURE_POINT = re.compile(r"[-+]?\d{1,3}\.\d{3}")  # 1.234
USUAL = 0.8  # minimum share of the values of a column; others may be footers or missing values
SOME = 0.5  # minimum share of numbers in a column, so that one of them is worth a remark


def comma_columns(rows: Iterable[Sequence[str]]) -> set[int]:
    """Return the places of the columns whose numbers have a decimal comma.

    A column proves it if most of its values are numbers with the comma as decimal sign, and one of them can't be read
    otherwise. Then the columns with numbers like 1.234 have it, too, if none of their numbers has a decimal point.
    """
    columns = list(enumerate(_columns(rows)))
    numbers = {place for place, values in columns if _share(WITH_COMMA, values) >= USUAL}
    proven = {place for place, values in columns if place in numbers and any(map(SURE_COMMA.fullmatch, values))}
    if not proven:
        return proven
    return proven | {place for place, values in columns if place in numbers and _unsure(values)}


def unsure_number(rows: Iterable[Sequence[str]], known: Container[int] = ()) -> str:
    """Return a number like 1.234 that may mean a thousand or little more than one, or "". `known` columns are clear."""
    others = (values for place, values in enumerate(_columns(rows)) if place not in known)
    columns = (values for values in others if _share(WITH_COMMA, values) >= SOME)
    return next((number for values in columns if (number := _unsure(values))), "")


def _unsure(values: Sequence[str]) -> str:
    """Return a number like 1.234 of a column, or "" if another of its numbers tells what the point means."""
    if any(map(SURE_POINT.fullmatch, values)):
        return ""
    return next(filter(UNSURE_POINT.fullmatch, values), "")


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
