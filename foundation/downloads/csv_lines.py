"""Lines of CSV files, protected against formula injection in spreadsheet programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from typing import Any, TypeVar
from unicodedata import normalize

Value = TypeVar("Value")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # first characters of a formula (OWASP, CSV Injection)
IGNORED = " \u00a0\u200b\u200c\u200d\u2060\ufeff\0"  # that programs leave out before a formula


def csv_line(cells: Iterable[Any]) -> str:
    """Return a line of a CSV file. A list or an object becomes JSON."""
    text = io.StringIO()
    csv.writer(text).writerow([escape_formula(_plain(cell)) for cell in cells])
    return text.getvalue()


def _plain(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else value


def escape_formula(value: Value) -> Value | str:
    """Prefix a text with an apostrophe if a spreadsheet program would run it as a formula."""
    if not isinstance(value, str):
        return value
    # Some programs also read the full-width forms.
    start = normalize("NFKC", value[:20]).lstrip(IGNORED)
    return f"'{value}" if value.startswith(FORMULA) or start.startswith(FORMULA) else value
