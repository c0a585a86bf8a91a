"""Parameters of PostgreSQL that each transaction sets for itself: its identity, its timeout, and those of searches.

They are sent like `SET LOCAL`, so they neither get lost nor reach other people behind a pooler that assigns connections
per transaction (engine/base.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import NamedTuple

from django.conf import settings

from foundation.database.identity import NOBODY, Identity, current

_limit_ms: ContextVar[int] = ContextVar("statement_limit_ms", default=0)
_plans_once: ContextVar[bool] = ContextVar("statement_plans_once", default=False)


class Wanted(NamedTuple):
    """Settings for the transactions of the current context."""

    identity: Identity
    limit_ms: int  # statement timeout in milliseconds; 0: that of the server
    plans_once: bool = False  # one plan for all values of a prepared statement


NOTHING = Wanted(NOBODY, 0)


def limit_statements(seconds: float) -> None:
    """Set the statement timeout of transactions that begin from now on in the current context; 0: that of the server.

    `errors.from_database_error` translates the error of a statement that timed out.
    """
    _limit_ms.set(round(seconds * 1000))


@contextmanager
def limited(limit_ms: int) -> Iterator[None]:
    """Give the transactions that begin in a block another statement timeout, in milliseconds."""
    token = _limit_ms.set(limit_ms)
    try:
        yield
    finally:
        _limit_ms.reset(token)


@contextmanager
def planned_once() -> Iterator[None]:
    """Let prepared statements of transactions that begin in a block be planned once for all values.

    Otherwise PostgreSQL plans the first five executions on each connection anew. That takes longer than the statement
    if it is large and its best plan does not depend on the values.
    """
    token = _plans_once.set(True)
    try:
        yield
    finally:
        _plans_once.reset(token)


def wanted() -> Wanted:
    return Wanted(current(), _limit_ms.get(), _plans_once.get())


def statement(wanted: Wanted, role: str) -> tuple[str, list[str]]:
    """Return the statement that sets all parameters for the rest of the transaction, and its values.

    Its placeholders are $1, $2, …
    """
    return _whole_statement(wanted, role, tuple(settings.DATABASE_SEARCH.items()))


@lru_cache(maxsize=1_000)
def _whole_statement(wanted: Wanted, role: str, search: tuple[tuple[str, str], ...]) -> tuple[str, list[str]]:
    values = _identity_values(wanted.identity, role)
    if wanted.limit_ms:
        values["statement_timeout"] = str(wanted.limit_ms)
    if wanted.plans_once:
        values["plan_cache_mode"] = "force_generic_plan"
    return _statement(tuple(values), search), list(values.values())


@lru_cache(maxsize=1_000)
def identity_statement(identity: Identity, role: str) -> tuple[str, list[str]]:
    """Return the statement that changes the identity for the rest of the transaction, and its values."""
    values = _identity_values(identity, role)
    return _statement(tuple(values)), list(values.values())


def _identity_values(identity: Identity, role: str) -> dict[str, str]:
    values = {f"commonplace.{name}": value for name, value in vars(identity).items()}
    if role:
        values["role"] = role if identity != NOBODY else "none"
    return values


@cache
def _statement(names: tuple[str, ...], constants: tuple[tuple[str, str], ...] = ()) -> str:
    # The constants are numbers and words of the settings. As parameters they would take longer.
    numbered = ((name, f"${number}") for number, name in enumerate(names, 1))
    changes = [*numbered, *((name, f"'{value}'") for name, value in constants)]
    return "SELECT " + ", ".join(f"set_config('{name}', {value}, true)" for name, value in changes)
