"""Kinds of rows that people take along: their columns in an export, whose they are, and what belongs to what.

Each app declares its kinds in `portable_kinds` of its MemoryExtension. Exporting and restoring read the declarations,
so a kind needs no code of its own for either. Columns that are computed from others are never part of a kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db.models import (
    BooleanField,
    CharField,
    DateField,
    DateTimeField,
    Exists,
    Field,
    FloatField,
    ForeignKey,
    IntegerField,
    JSONField,
    Model,
    Q,
    QuerySet,
    TextField,
)

from foundation.operations.errors import Invalid
from foundation.operations.fields import UNSTORABLE, kind_of
from foundation.operations.timestamps import parse_timestamp
from foundation.people.caller import Caller

Values = dict[str, Any]
IMPORTED = " (imported)"  # follows the name of a person whom somebody else's import names


@dataclass(frozen=True)
class Parent:
    """A row that rows of a kind refer to: they belong to it, or they name it if it is optional."""

    column: str  # the attname that holds its primary key
    model: type[Model]
    owner: str  # lookup of the owner's address, from the parent
    is_optional: bool = False  # if true, the reference is dropped if the parent is missing
    by: Mapping[str, str] = field(default_factory=dict)  # key in the file → the parent's column; () means its id


@dataclass(frozen=True, kw_only=True)
class ExportKind:
    """A table of an export. Keys of a row in the file are attnames of the model, except for those in `lookups`."""

    name: str
    model: type[Model]
    columns: Sequence[str]
    owner: str  # lookup of the owner's address, from the model; "" if the rows belong to no person
    key: Sequence[str] = ("id",)  # keys that identify a row
    lookups: Mapping[str, str] = field(default_factory=dict)  # key in the file → lookup, if it is not an attname
    added: Mapping[str, Any] = field(default_factory=dict)  # key that earlier files lack → the value it then has
    extra: Mapping[str, Any] = field(default_factory=dict)  # key in the file → expression, to be read only
    order: Sequence[str] = ()
    only: Q | Exists | None = None  # condition for the rows that are exported, if not all are
    parents: Sequence[Parent] = ()
    counters: frozenset[str] = frozenset()  # keys that change through mere use; they are not compared
    stated_by: str = ""  # key of the person whose statement the row is; nobody can import a statement of others
    names: frozenset[str] = frozenset()  # keys of other people whom the row names
    of_persona: Callable[[str], Q] | None = None  # rows that curators of a persona export; None if there are none
    adapt: Callable[[Caller, Values, list[str]], None] | None = None  # makes a row one that the caller may write
    prepare: Callable[[Any], None] | None = None  # sets the computed columns of a new row
    index: str = ""  # name of its vector source, if its texts are embedded

    @property
    def has_own_id(self) -> bool:
        return tuple(self.key) == ("id",)

    @property
    def keys(self) -> list[str]:
        """Return the keys of a row in the file, without `kind`, and without an `id` that is made of other keys."""
        return [*self.columns, *self.extra]

    def lookup(self, key: str) -> str:
        return self.lookups.get(key, key)

    @property
    def owner_key(self) -> str:
        """Return the key with the owner's address, or "" if the rows belong to the owner of their parent."""
        return next((key for key in self.columns if self.lookup(key) == self.owner), "")

    def rows(self, *, owner: str = "", persona: str = "") -> QuerySet[Any] | None:
        """Return the rows of an owner, of a persona, or of everyone. None if the kind has no such rows."""
        if (owner and not self.owner) or (persona and self.of_persona is None):
            return None
        rows = self.model._default_manager.all()
        if self.only is not None:
            rows = rows.filter(self.only)
        if owner:
            rows = rows.filter(**{self.owner: owner})
        if persona and self.of_persona is not None:
            rows = rows.filter(self.of_persona(persona))
        return rows.order_by(*(self.order or [self.lookup(key) for key in self.key]))

    def read(self, rows: QuerySet[Any], *, chunk_size: int = 1_000) -> Iterator[Values]:
        """Yield the rows as in the file, one chunk in memory at a time."""
        lookups = [self.lookup(key) for key in self.columns]
        for row in rows.values_list(*lookups, *self.extra.values()).iterator(chunk_size=chunk_size):
            yield self.as_exported(dict(zip(self.keys, map(to_json, row), strict=True)))

    def as_exported(self, values: Mapping[str, Any]) -> Values:
        return {"kind": self.name, "id": self.id_of(values), **values}

    def id_of(self, values: Mapping[str, Any]) -> str:
        return "/".join(str(values[key]) for key in self.key)

    def parse(self, row: Mapping[str, Any]) -> Values:
        """Return the values of a row of a file, as Python values. Raises Invalid."""
        known = {"kind", "id", *self.keys}
        if unknown := sorted(set(row) - known):
            raise Invalid("is unknown", field=unknown[0][:80], allowed=", ".join(self.columns))
        row = {**self.added, **row}
        if missing := [key for key in self.columns if key not in row]:
            raise Invalid("is missing", field=missing[0])
        values = {key: parse_value(key, self.field_of(key), row[key]) for key in self.columns}
        for key in self.extra:
            if not isinstance(row.get(key, False), bool):
                raise Invalid(f"is {kind_of(row[key])}", field=key, allowed="true or false")
            values[key] = row.get(key, False)
        return values

    def field_of(self, key: str) -> Field[Any, Any]:
        model: type[Model] = self.model
        *path, name = self.lookup(key).split("__")
        for step in path:
            model = model._meta.get_field(step).related_model  # type: ignore[assignment]  # a foreign key
        try:
            found = model._meta.get_field(name)
        except FieldDoesNotExist:  # an attname, such as record_id
            found = model._meta.get_field(name.removesuffix("_id"))
        assert isinstance(found, Field)
        return found


def of_record(persona: str) -> Q:
    """Return the condition for rows of memories that are shared with a persona."""
    return shared(persona, "record__")


def shared(persona: str, prefix: str = "") -> Q:
    return Q(**{f"{prefix}persona": persona}) & ~Q(**{f"{prefix}visibility": "private"})


def to_json(value: Any) -> Any:
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value


# -- parsing -----------------------------------------------------------------------------------------------

# class of a column → the JSON types of its values, and their name in messages
JSON_TYPES: tuple[tuple[type[Field[Any, Any]], tuple[type, ...], str], ...] = (
    (ArrayField, (list,), "a list of texts"),
    (BooleanField, (bool,), "true or false"),
    (IntegerField, (int,), "a whole number"),
    (FloatField, (int, float), "a number"),
    (DateField, (str,), "a date, such as 2026-11-26"),
    (CharField, (str,), "a text"),
    (TextField, (str,), "a text"),
)


def parse_value(key: str, column: Field[Any, Any], value: Any) -> Any:
    if isinstance(column, ForeignKey):
        value = parse_value(key, column.target_field, value) if value is not None else None
        if value is None and not column.null:
            raise Invalid("is missing", field=key)
        return value
    if value is None:
        if not column.null:
            raise Invalid("is missing", field=key)
        return None
    if _has_unstorable(value):
        raise Invalid("contains a NUL character or half a surrogate pair", field=key, allowed="Unicode text")
    if isinstance(column, JSONField):
        if column.default in (dict, list) and not isinstance(value, column.default):
            raise Invalid(
                f"is {kind_of(value)}", field=key, allowed="an object" if column.default is dict else "a list"
            )
        return value
    if isinstance(column, DateTimeField):
        return _moment(key, value)
    for kind, types, allowed in JSON_TYPES:
        if isinstance(column, kind):
            fits = isinstance(value, types) and (bool in types or not isinstance(value, bool))
            if not fits or (isinstance(value, list) and not all(isinstance(item, str) for item in value)):
                raise Invalid(f"is {kind_of(value)}", field=key, allowed=allowed)
            break
    return _validated(key, column, value)


def _validated(key: str, column: Field[Any, Any], value: Any) -> Any:
    try:
        value = column.to_python(value)
        column.run_validators(value)
    except (ValidationError, OverflowError) as error:
        fault = " ".join(error.messages) if isinstance(error, ValidationError) else "is out of range"
        raise Invalid(fault[:200], field=key) from None
    if isinstance(value, float) and not math.isfinite(value):
        raise Invalid("is not a number", field=key)
    if column.choices and value not in dict(column.flatchoices):
        allowed = ", ".join(str(choice) or '""' for choice, _ in column.flatchoices)
        raise Invalid(f"{str(value)[:80]!r} is unknown", field=key, allowed=allowed)
    return value


def _moment(key: str, value: Any) -> datetime:
    moment = parse_timestamp(value) if isinstance(value, str) else None
    if moment is None:
        raise Invalid(f"{str(value)[:60]!r} is not a time", field=key, allowed="ISO 8601 with an offset")
    return moment


def _has_unstorable(value: Any) -> bool:
    pending = [value]  # a stack, because a recursive check would fail on deep nesting
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if UNSTORABLE.search(item):
                return True
        elif isinstance(item, Mapping):
            pending += [*item, *item.values()]
        elif isinstance(item, list):
            pending += item
    return False
