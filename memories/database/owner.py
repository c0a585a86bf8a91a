"""Database access as the owner of the tables, for migrations and for commands that alter a column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import connection


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


def _change(parameters: dict[str, str]) -> None:
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]  # PostgreSQL's wrapper has it
    connection.settings_dict.update(parameters)
