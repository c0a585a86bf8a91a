"""CSV that a spreadsheet program opens without running anything in it."""

from __future__ import annotations

from typing import TypeVar

Value = TypeVar("Value")
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a formula may begin with (OWASP, CSV Injection)


def escape_formula(value: Value) -> Value | str:
    """The value; a text that would run as a formula is marked as text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
