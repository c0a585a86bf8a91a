"""Columns that name people: what becomes of their rows when a person is wiped, or hands everything over.

A model states it in `person_columns`:

    class Import(models.Model):
        person_columns = (PersonColumn("created_by", handed_over_as="imports"),)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db.models import Model

DELETE, PSEUDONYM, NOTHING = "delete", "pseudonym", ""  # a pseudonym replaces the name in rows that others rely on


@dataclass(frozen=True)
class PersonColumn:
    """A column that names a person, by e-mail address unless `owner_value` says otherwise.

    Rows that are handed over move along with their owner. `unique` are the columns that must differ between the rows of
    one owner: None if no two rows can collide, and () if an owner has at most one row. A row that would collide with
    one of the heir stays.
    """

    column: str
    on_wipe: str = DELETE
    handed_over_as: str = ""  # what the rows are called on pages, for example "analyses"; "" if they stay
    unique: tuple[str, ...] | None = None
    owner_value: Callable[[str], Any] = str  # from an e-mail address to the column's value; None if there is none


def person_columns() -> Iterator[tuple[type[Model], PersonColumn]]:
    """Yield the columns of all models that name a person."""
    for model in apps.get_models():
        if not model._meta.proxy:
            for column in getattr(model, "person_columns", ()):
                yield model, column


def handed_over() -> Iterator[tuple[type[Model], PersonColumn]]:
    """Yield the columns whose rows move along when a person hands everything over."""
    return ((model, column) for model, column in person_columns() if column.handed_over_as)
