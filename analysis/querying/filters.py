"""Compilation of `where` conditions to SQL.

A comparison with a number or a date casts the field's value. If the value can't be cast, the query doesn't fail: the
comparison is NULL, which doesn't match, not even under $not. Such values are counted, so that the response can report
them. Field names and values are passed as parameters; all other SQL comes from constants in this module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from foundation.operations.errors import Invalid
from foundation.operations.fields import UNSTORABLE, Moment
from foundation.operations.operation import validate

MAX_NAME = 200
DATE = re.compile(r"\d{4}-\d\d-\d\d")
NUMBER = re.compile(r"[-+]?[0-9]{1,60}(\.[0-9]{1,60})?([eE][-+]?[0-9]{1,2})?")
COMPARISONS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
OPERATORS = (*COMPARISONS, "$eq", "$ne", "$in", "$nin", "$exists", "$contains", "$not")
BARE = (*COMPARISONS, "$eq", "$ne", "$nin")  # whose names without the sign are hardly those of fields
JOINS = {"$and": " AND ", "$or": " OR "}
MAX_DEPTH = 8
MAX_CONDITIONS = 200
MAX_LIST = 1_000  # maximum number of values in all lists of a `where` together

# An escaped NUL in JSON. After an odd number of further backslashes, it is a text about the escape.
ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
# PostgreSQL also accepts NaN, Infinity, 0x1F and 1_000 as numbers. They aren't cast: the first two would distort
# comparisons and sums, and the others are more likely codes or part numbers.
DECIMAL = r"^\s*[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)(e[-+]?[0-9]{1,2})?\s*$"
NUMERIC = f"CASE WHEN VALUE ~* '{DECIMAL}' AND pg_input_is_valid(VALUE, 'numeric') THEN (VALUE)::numeric END"
ISO_DATE = r"^\s*\d\d\d\d[-/.]?\d\d?[-/.]?\d\d?"
# With points, the day comes first everywhere. With slashes, it depends on the country, so such a text isn't cast.
DATE_WITH_POINTS = r"^\s*(\d\d?)\.(\d\d?)\.(\d\d\d\d)"
REORDERED = rf"regexp_replace(VALUE, '{DATE_WITH_POINTS}', '\3-\2-\1')"
TIMESTAMP = f"""CASE
    WHEN VALUE ~ '{ISO_DATE}' AND pg_input_is_valid(VALUE, 'timestamptz') THEN (VALUE)::timestamptz
    WHEN VALUE ~ '{DATE_WITH_POINTS}' AND pg_input_is_valid({REORDERED}, 'timestamptz') THEN ({REORDERED})::timestamptz
    END"""
# Day and month in either order, and the year.
OTHER_DATE = re.compile(r"(?:0?[1-9]|[12]\d|3[01])([./-])(?:0?[1-9]|[12]\d|3[01])\1(?:19|20)\d\d(?:[ T].*)?")


@dataclass
class Where:
    """A compiled condition and its parameters. `casts` lists its casts as (field, `numeric` or `timestamptz`)."""

    sql: str = "true"
    params: list[Any] = field(default_factory=list)
    casts: list[tuple[str, str]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # fields that must exist, because their values are compared
    conditions: int = 0
    values: int = 0

    def uncastable(self) -> list[tuple[str, str, list[Any]]]:
        """Return (field, condition, parameters) for each cast; the condition selects rows whose value can't be cast."""
        conditions = []
        for name, kind in dict.fromkeys(self.casts):
            text, text_params = field_text(name)
            sql, params = cast(name, kind)
            conditions.append((name, f"({text} IS NOT NULL AND ({sql}) IS NULL)", [*text_params, *params]))
        return conditions


def cast(name: str, kind: str) -> tuple[str, list[Any]]:
    """Return SQL and its parameters. The SQL yields the field's value as this type, or NULL if it can't be cast."""
    text, params = field_text(name)
    template = NUMERIC if kind == "numeric" else TIMESTAMP
    return template.replace("VALUE", text), params * template.count("VALUE")


def field_text(name: str) -> tuple[str, list[Any]]:
    """Return SQL and its parameters. The SQL yields the field's value as text, or NULL if it is missing or null.

    In every part of a query, a name with dots is a field of this name or else the path to a value in nested objects.
    """
    if "." not in name:
        return "data->>%s", [name]
    return "coalesce(data->>%s, data#>>%s::text[])", [name, name.split(".")]


def field_json(name: str) -> tuple[str, list[Any]]:
    """Return SQL and its parameters. The SQL yields the field's value as jsonb, or NULL if it is missing."""
    if "." not in name:
        return "data->%s", [name]
    return "coalesce(data->%s, data#>%s::text[])", [name, name.split(".")]


def field_name(name: object, path: str) -> str:
    """Return the field name unchanged. Raises Invalid if no field can have this name."""
    if not isinstance(name, str) or not name or len(name) > MAX_NAME or UNSTORABLE.search(name):
        allowed = f"1 to {MAX_NAME} characters, none of them NUL"
        raise Invalid(f"{str(name)[:80]!r} is not a valid field name", field=path, allowed=allowed)
    return name


def compile_where(conditions: Mapping[str, Any] | None, path: str = "where") -> Where:
    """Compile the conditions. Raises Invalid, which names the wrong part, if they are not valid."""
    if not conditions:
        return Where()
    if not isinstance(conditions, Mapping):
        raise Invalid("is not an object", field=path, allowed='{"field": value} or {"field": {"$gte": value}}')
    clause = Where()
    clause.sql = _all(conditions, clause, path, 0)
    return clause


def _all(conditions: Mapping[str, Any], clause: Where, path: str, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise Invalid(f"is nested deeper than {MAX_DEPTH}", field=path)
    parts = []
    for name, value in conditions.items():
        inner_path = f"{path}.{name}"
        if name in JOINS:
            parts.append(_joined(JOINS[name], value, clause, inner_path, depth))
        elif name == "$not":
            if not isinstance(value, Mapping):
                raise Invalid("is not an object", field=inner_path)
            parts.append(f"NOT ({_all(value, clause, inner_path, depth + 1)})")
        elif name.startswith("$"):
            raise _unknown(name, path, (*JOINS, "$not"))
        else:
            parts.append(_field(name, value, clause, inner_path, depth))
    return " AND ".join(parts) or "true"


def _joined(separator: str, value: Any, clause: Where, path: str, depth: int) -> str:
    if not isinstance(value, list) or not value or not all(isinstance(condition, Mapping) for condition in value):
        raise Invalid("is not a list of conditions", field=path)
    return "(" + separator.join(f"({_all(condition, clause, path, depth + 1)})" for condition in value) + ")"


def _field(name: str, value: Any, clause: Where, path: str, depth: int) -> str:
    clause.conditions += len(value) if isinstance(value, Mapping) and value else 1
    if clause.conditions > MAX_CONDITIONS:
        allowed = f"at most {MAX_CONDITIONS} conditions; a single $in takes many values of one field"
        raise Invalid("has too many conditions", field="where", allowed=allowed)
    if not isinstance(value, Mapping) or set(value) != {"$exists"}:
        clause.names.append(name)
    if not isinstance(value, Mapping) or not any(str(key).startswith("$") for key in value):
        if isinstance(value, Mapping) and value and all(f"${key}" in BARE for key in value):
            operator = next(iter(value))
            raise Invalid(f"{operator!r} is not an operator: did you mean ${operator}?", field=path)
        return _exact(name, value, clause, path)
    parts = []
    for operator, operand in value.items():
        if operator not in OPERATORS:
            raise _unknown(str(operator), path, OPERATORS)
        parts.append(_OPERATORS[operator](name, operator, operand, clause, f"{path}.{operator}", depth))
    return "(" + " AND ".join(parts) + ")"


def _exact(name: str, value: Any, clause: Where, path: str) -> str:
    """Match by JSONB containment, which can use the index.

    An object matches if it contains the members of `value`, and a list if it contains the elements of `value`.
    """
    try:
        text = json.dumps({field_name(name, "where"): value}, allow_nan=False, ensure_ascii=False)
    except ValueError:
        raise Invalid("is not a finite number", field=path) from None
    if UNSTORABLE.search(text) or ESCAPED_NUL.search(text):
        raise Invalid("contains a NUL character or half a surrogate pair", field=path)
    clause.params.append(text)
    if "." not in name:
        return "data @> %s::jsonb"
    clause.params += [name.split("."), json.dumps({"value": value})]
    return "(data @> %s::jsonb OR jsonb_build_object('value', data#>%s::text[]) @> %s::jsonb)"


def _compare(name: str, operator: str, operand: Any, clause: Where, path: str, depth: int) -> str:
    field_name(name, path)
    kind, value = operand_kind(operand, path)
    if kind == "text":
        sql, params = field_text(name)
        clause.params += [*params, value]
        return f"({sql} {COMPARISONS[operator]} %s)"
    clause.casts.append((name, kind))
    sql, params = cast(name, kind)
    clause.params += [*params, value]
    return f"(({sql}) {COMPARISONS[operator]} %s::{kind})"  # NULL if the value can't be cast


def operand_kind(operand: Any, path: str) -> tuple[str, str]:
    """Return the type that the operand is compared as (`numeric`, `timestamptz` or `text`), and its normalized text."""
    if isinstance(operand, bool) or not isinstance(operand, int | float | str):
        raise Invalid(f"{str(operand)[:60]!r} can't be ordered", field=path, allowed="a number, a date or a text")
    text = str(operand).strip()
    if isinstance(operand, int | float) or NUMBER.fullmatch(text):
        if "inf" in text or "nan" in text:
            raise Invalid("is not a finite number", field=path)
        return "numeric", text
    if UNSTORABLE.search(text):
        raise Invalid("contains a NUL character or half a surrogate pair", field=path)
    if OTHER_DATE.fullmatch(text):  # compared as a text, it would select other records than those meant
        raise Invalid(f"{text[:40]!r} is a date in another form", field=path, allowed="ISO 8601, such as 2026-03-31")
    return ("timestamptz", valid_time(text, path)) if DATE.match(text) else ("text", text)


def valid_time(text: str, path: str) -> str:
    # a date without a time means the first moment of the day
    return str(validate(Moment, f"{text}T00:00:00" if len(text) == 10 else text, path).isoformat())


def _equal(name: str, operator: str, operand: Any, clause: Where, path: str, depth: int) -> str:
    sql = _exact(name, operand, clause, path)
    return f"NOT ({sql})" if operator == "$ne" else sql


def _among(name: str, operator: str, operand: Any, clause: Where, path: str, depth: int) -> str:
    if not isinstance(operand, list):
        raise Invalid("is not a list of values", field=path, allowed=f"a list of at most {MAX_LIST:,} values")
    clause.values += len(operand)
    if clause.values > MAX_LIST:
        raise Invalid("lists too many values", field=path, allowed=f"at most {MAX_LIST:,} values in all lists together")
    sql = " OR ".join(_exact(name, value, clause, path) for value in operand) or "false"
    return f"NOT ({sql})" if operator == "$nin" else f"({sql})"


def _exists(name: str, operator: str, operand: Any, clause: Where, path: str, depth: int) -> str:
    if not isinstance(operand, bool):
        raise Invalid(f"{operand!r} is neither true nor false", field=path)
    sql, params = field_json(field_name(name, "where"))
    clause.params += params
    return f"({sql}) IS {'NOT ' if operand else ''}NULL"


def _contains(name: str, operator: str, operand: Any, clause: Where, path: str, depth: int) -> str:
    """Match a part of a text, ignoring case, or an element of a list."""
    if not isinstance(operand, str | int | float | bool):
        raise Invalid(f"{str(operand)[:60]!r} can't be part of a value", field=path, allowed="a text or a number")
    if isinstance(operand, str) and UNSTORABLE.search(operand):
        raise Invalid("contains a NUL character or half a surrogate pair", field=path)
    found, found_params = field_json(field_name(name, "where"))
    text, text_params = field_text(name)
    clause.params += [*found_params, *found_params, json.dumps([operand]), str(operand), *text_params]
    return (
        f"CASE jsonb_typeof({found}) WHEN 'array' THEN {found} @> %s::jsonb "
        f"ELSE coalesce(position(lower(%s::text) in lower({text})) > 0, false) END"
    )


def _not(name: str, operator: str, operand: Any, clause: Where, path: str, depth: int) -> str:
    if depth >= MAX_DEPTH:
        raise Invalid(f"is nested deeper than {MAX_DEPTH}", field=path)
    return f"NOT ({_field(name, operand, clause, path, depth + 1)})"


def _unknown(operator: str, path: str, allowed: tuple[str, ...]) -> Invalid:
    return Invalid(f"{operator[:40]!r} is not an operator", field=path, allowed=", ".join(allowed))


_OPERATORS: dict[str, Callable[[str, str, Any, Where, str, int], str]] = {
    **dict.fromkeys(COMPARISONS, _compare),
    **dict.fromkeys(("$eq", "$ne"), _equal),
    **dict.fromkeys(("$in", "$nin"), _among),
    "$exists": _exists,
    "$contains": _contains,
    "$not": _not,
}
