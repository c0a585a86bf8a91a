"""Validation of values against a model's declared attributes, before an update is sent."""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from typing import Any

from django.utils.translation import gettext

from analysis.sources.declaration import Attribute
from foundation.operations.errors import Invalid

ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

ALLOWED = {
    "string": "a text",
    "text": "a text",
    "enum": "a text",
    "integer": "a whole number, without quotes",
    "number": "a finite number, without quotes",
    "boolean": "true or false",
    "date": "a date such as 2026-05-31",
    "datetime": "a time such as 2026-05-31T08:00:00Z, or a date",
    "array": "a list",
    "object": "an object",
}


def check_value(path: str, attribute: Attribute, value: Any) -> None:
    """Raise Invalid if the value doesn't have the attribute's type or is none of its declared values.

    Null clears an attribute, so it is valid unless the attribute lists its values.
    """
    if attribute.type == "enum" and attribute.values:
        if value not in attribute.values:
            raise Invalid(
                gettext("%(value)r is unknown") % {"value": str(value)[:60]},
                field=path,
                allowed=", ".join(attribute.values),
            )
    elif value is not None and not _has_type(attribute.type, value):
        kind = f"{'an' if attribute.type[0] in 'aeiou' else 'a'} {attribute.type}"
        raise Invalid(
            gettext("%(value)r is not %(kind)s") % {"value": str(value)[:60], "kind": kind},
            field=path,
            allowed=ALLOWED[attribute.type],
        )


def _has_type(kind: str, value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    match kind:
        case "integer":
            return is_number and value == int(value)
        case "number":
            return is_number
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case "date" | "datetime":
            return isinstance(value, str) and _is_time(kind, value)
        case _:
            return isinstance(value, str)


def _is_time(kind: str, text: str) -> bool:
    if not ISO_DATE.match(text):  # fromisoformat also reads 20260531 and 2026-W22
        return False
    try:
        date.fromisoformat(text) if kind == "date" else datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
