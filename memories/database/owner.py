"""Work that needs the tables' owner: migrations, and the commands that alter a column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import connection


@contextmanager
def as_owner() -> Iterator[None]:
    """The connections of this process are the owner's meanwhile; a no-op where the application is the owner itself."""
    parameters = connection.settings_dict
    ordinary = {name: parameters[name] for name in settings.DATABASE_OWNER}
    if ordinary == settings.DATABASE_OWNER:
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
