"""The JSON Schema of a line of an export, made from the declared kinds. docs/export-v1.schema.json is a copy of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db.models import (
    BooleanField,
    DateField,
    DateTimeField,
    Field,
    FloatField,
    ForeignKey,
    IntegerField,
    JSONField,
    UUIDField,
)

from memories.portability import ExportKind
from memories.portable_kinds import kinds
from memory_project.exchange.exports.stream import SCOPES, VERSION

JSON_TYPES: tuple[tuple[type[Field[Any, Any]], dict[str, Any]], ...] = (
    (ArrayField, {"type": "array", "items": {"type": "string"}}),
    (BooleanField, {"type": "boolean"}),
    (DateTimeField, {"type": "string", "format": "date-time"}),
    (DateField, {"type": "string", "format": "date"}),
    (FloatField, {"type": "number"}),
    (IntegerField, {"type": "integer"}),
    (JSONField, {}),
    (UUIDField, {"type": "string", "pattern": "^[0-9a-f]{32}$"}),
)


def schema() -> dict[str, Any]:
    every = kinds().values()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A line of an export of Commonplace, version {VERSION}",
        "oneOf": [_header(), *(_kind(kind) for kind in every), _end([kind.name for kind in every])],
    }


def _header() -> dict[str, Any]:
    return _object(
        {
            "kind": {"const": "export"},
            "format": {"const": "commonplace"},
            "version": {"const": VERSION},
            "exported_at": {"type": "string", "format": "date-time"},
            "scope": {"enum": list(SCOPES)},
            "of": {"type": "string", "description": "The person or persona whose rows these are."},
        }
    )


def _end(names: list[str]) -> dict[str, Any]:
    count = {"type": "integer", "minimum": 0}
    counts = {
        "type": "object",
        "properties": dict.fromkeys(names, count),
        "additionalProperties": False,
    }
    return _object({"kind": {"const": "end"}, "counts": counts})


def _kind(kind: ExportKind) -> dict[str, Any]:
    properties: dict[str, Any] = {"kind": {"const": kind.name}, "id": {"type": "string"}}
    properties |= {key: _column(kind.field_of(key)) for key in kind.columns}
    properties |= {key: {"type": "boolean"} for key in kind.extra}
    return _object(properties, optional=kind.added)


def _column(column: Field[Any, Any]) -> dict[str, Any]:
    target = column.target_field if isinstance(column, ForeignKey) else column
    found: dict[str, Any] = next(
        (dict(types) for kind, types in JSON_TYPES if isinstance(target, kind)), {"type": "string"}
    )
    if isinstance(column, JSONField) and column.default in (dict, list):
        found = {"type": "object" if column.default is dict else "array"}
    if column.choices:
        found["enum"] = [str(value) for value, _ in column.flatchoices]
        if column.blank and "" not in found["enum"]:
            found["enum"].append("")
    if column.null and "type" in found:
        found["type"] = [found["type"], "null"]
    return found


def _object(properties: dict[str, Any], optional: Collection[str] = ()) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [key for key in properties if key not in optional],
        "additionalProperties": False,
    }
