"""Database access as the owner of the tables, for migrations and for commands that alter a column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.conf import settings
from django.db import connection

from foundation.database.engine.base import is_pooled
from foundation.database.locks import DIRECT


@contextmanager
def as_owner() -> Iterator[None]:
    """Connect this process as the owner of the tables for the duration of the block."""
    parameters = connection.settings_dict
    ordinary = {name: parameters[name] for name in settings.DATABASE_OWNER}
    if ordinary == settings.DATABASE_OWNER:  # the application's role is the owner
        yield
        return
    _change(settings.DATABASE_OWNER)
    try:
        yield
    finally:
        _change(ordinary)


def leads_to_pooler() -> bool:
    """Return whether the owner's address is that of a pooler which assigns connections per transaction."""
    owner = {name.lower(): value for name, value in settings.DATABASE_OWNER.items()}
    parameters = {**connection.get_connection_params(), **{name: value for name, value in owner.items() if value}}
    direct = {name: value for name, value in parameters.items() if name in DIRECT}
    with psycopg.connect(**direct, autocommit=True, prepare_threshold=None) as separate:
        return is_pooled(separate)


def _change(parameters: dict[str, str]) -> None:
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]  # PostgreSQL's wrapper has it
    connection.settings_dict.update(parameters)
