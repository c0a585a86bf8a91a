"""Spans of statements, for tracing. The composition root sets `open_span`; without it, statements cost nothing more.

A span has the operation and the table, and never the text of the statement, because its values may be part of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

from django.apps import apps

OPERATIONS = frozenset(
    {"SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "MERGE", "SAVEPOINT", "RELEASE", "ROLLBACK", "SET"}
)
FIRST_WORD = re.compile(r"[\s(]*+(\w+)")
TABLE = re.compile(r'\b(?:FROM|INTO|UPDATE|JOIN)\s++(?:ONLY\s++)?"?(\w++)', re.IGNORECASE)
MAX_LOOKED_AT = 4_000  # characters of a statement

OpenSpan = Callable[[Any], AbstractContextManager[Any]]
open_span: OpenSpan | None = None
_nothing = nullcontext()
_tables: frozenset[str] = frozenset()


def record_with(opening: OpenSpan | None) -> None:
    """Let the function open a span for each statement. It gets the statement, of which it may record the summary."""
    global open_span, _tables
    # only these can be names of tables: a word of a text after "from" is none
    _tables = frozenset(model._meta.db_table for model in apps.get_models(include_auto_created=True))
    open_span = opening
    _summary.cache_clear()


def of_statement(query: Any) -> AbstractContextManager[Any]:
    return _nothing if open_span is None else open_span(query)


def summary(query: Any) -> tuple[str, str]:
    """Return the operation of a statement, and the first of our tables that it names, or ""."""
    return _summary(query[:MAX_LOOKED_AT]) if isinstance(query, str) else ("OTHER", "")


@lru_cache(maxsize=1_000)  # the expressions take 20 µs for a long statement
def _summary(query: str) -> tuple[str, str]:
    first = FIRST_WORD.match(query)
    operation = first[1].upper() if first else ""
    names = (match[1] for match in TABLE.finditer(query))
    table = next((name for name in names if name in _tables), "")
    return operation if operation in OPERATIONS else "OTHER", table
