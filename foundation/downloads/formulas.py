"""Protection of CSV exports against formula injection in spreadsheet programs."""

from __future__ import annotations

from typing import TypeVar
from unicodedata import normalize

Value = TypeVar("Value")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # first characters of a formula (OWASP, CSV Injection)
IGNORED = " \u00a0\u200b\u200c\u200d\u2060\ufeff\0"  # that programs leave out before a formula


def escape_formula(value: Value) -> Value | str:
    """Prefix a text with an apostrophe if a spreadsheet program would run it as a formula."""
    if not isinstance(value, str):
        return value
    # Some programs also read the full-width forms.
    start = normalize("NFKC", value[:20]).lstrip(IGNORED)
    return f"'{value}" if value.startswith(FORMULA) or start.startswith(FORMULA) else value
