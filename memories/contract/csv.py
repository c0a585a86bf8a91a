"""Protection of CSV exports against formula injection in spreadsheet programs."""

from __future__ import annotations

from typing import TypeVar

Value = TypeVar("Value")
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # first characters of a formula (OWASP, CSV Injection)


def escape_formula(value: Value) -> Value | str:
    """Prefix a text with an apostrophe if a spreadsheet program would run it as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
