"""Values of structured properties, checked against the property's definition as DataHub checks them.

DataHub stores numbers as doubles, and all other values as texts. It checks the type, the number of values, the allowed
values and the entity types of URNs. The types of the entities that may carry the property are checked here, too.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from django.utils.translation import gettext

from foundation.operations.errors import Invalid
from foundation.operations.fields import Urn
from foundation.operations.operation import validate
from knowledge.catalog.interface import entity_type

Definition = Mapping[str, Any]  # the aspect propertyDefinition

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
MAX_SHOWN = 60  # maximum number of characters of a value in an error message
MAX_LISTED = 30  # maximum number of allowed values in an error message


def parse_values(definition: Definition, text: str) -> list[dict[str, str | float]]:
    """Return the values in `text` in the form in which the aspect structuredProperties stores them.

    `text` is one value, a JSON string, or a JSON array of texts and numbers. Raises Invalid for the field `detail` if a
    value does not fit the definition, and for the field `target` if values of the property's type can't be set.
    """
    kind = type_name(str(definition.get("valueType") or "string"))
    parse = PARSERS.get(kind)
    if parse is None:
        raise Invalid(
            gettext("is a property of type %(kind)s") % {"kind": kind},
            field="target",
            allowed=gettext("properties of type %(names)s") % {"names": ", ".join(PARSERS)},
        )
    texts = _split(text)
    if len(texts) > 1 and definition.get("cardinality") != "MULTIPLE":
        raise _refused(
            gettext("has %(count)s values") % {"count": len(texts)},
            gettext("one value, because the property is single-valued"),
        )
    values = [parse(value) for value in texts]
    if kind == "urn":
        _check_types_of_urns(definition, texts)
    if definition.get("allowedValues"):
        _check_allowed(definition["allowedValues"], values)
    return [{"double": value} if isinstance(value, float) else {"string": value} for value in values]


def check_carrier(definition: Definition, urn: str) -> None:
    """Raise Invalid if the property is not defined for entities of this type."""
    carriers = [type_name(str(carrier)) for carrier in definition.get("entityTypes") or []]
    if carriers and not _is_among(entity_type(urn), carriers):
        message = gettext("is a property of %(types)s") % {"types": ", ".join(carriers)}
        raise Invalid(message, field="target", allowed=gettext("properties of %(urn)s") % {"urn": entity_type(urn)})


def type_name(urn: str) -> str:
    """Return `number` for urn:li:dataType:datahub.number, and `dataset` for urn:li:entityType:datahub.dataset."""
    return urn.rsplit(":", 1)[-1].removeprefix("datahub.")


def _split(text: str) -> list[str]:
    if not text.startswith(("[", '"')):
        return [text]
    try:
        # Numbers stay as they are written, because a float loses digits before they can be checked.
        value = json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return [text]
    values = value if isinstance(value, list) else [value]
    if not values:
        raise _refused("is an empty list", "at least one value; remove_structured_property removes all")
    for position, item in enumerate(values, 1):
        if not isinstance(item, str) or not item.strip():
            raise _refused(f"value {position} is empty, or neither a text nor a number", "texts and numbers")
    return [item.strip() for item in values]


def _refuse_constant(name: str) -> None:
    raise _refused(f"contains {name}, which is not JSON", "texts and finite numbers")


def _number(text: str) -> float:
    if not NUMBER.fullmatch(text):
        raise _refused(
            f"{text[:MAX_SHOWN]!r} is not a number", "a finite number, because the property's type is number"
        )
    value = float(text)
    if not math.isfinite(value):
        raise _refused(f"{text[:MAX_SHOWN]!r} is out of range", "a number that a double can hold")
    exact = Decimal(text)
    # An integer must be held digit by digit. A fraction such as 0.1 must only be read back as it was written.
    held = Decimal(value) if exact == exact.to_integral_value() else Decimal(repr(value))
    if held != exact:
        message = f"{text[:MAX_SHOWN]!r} would be stored as {held:.30g}, because the catalog stores numbers as doubles"
        raise _refused(message, "a number that a double holds exactly, or a property of type string")
    return value + 0.0  # the sum turns -0.0 into 0.0, because PostgreSQL does not keep that sign


def _text(text: str) -> str:
    return text


def _date(text: str) -> str:
    try:
        date.fromisoformat(text if DATE.fullmatch(text) else "")
    except ValueError:
        message = f"{text[:MAX_SHOWN]!r} is not a date"
        allowed = "an ISO 8601 date such as 2026-03-31, because the property's type is date"
        raise _refused(message, allowed) from None
    return text


def _urn(text: str) -> str:
    if not text.startswith("urn:li:"):
        raise _refused(f"{text[:MAX_SHOWN]!r} is not a URN", "a URN, because the property's type is urn")
    urn: str = validate(Urn, text, "detail")
    return urn


PARSERS: dict[str, Callable[[str], str | float]] = {
    "string": _text,
    "rich_text": _text,
    "number": _number,
    "date": _date,
    "urn": _urn,
}


def _check_types_of_urns(definition: Definition, urns: Sequence[str]) -> None:
    types = (definition.get("typeQualifier") or {}).get("allowedTypes") or []
    allowed = [type_name(str(kind)) for kind in types]
    for urn in urns:
        if allowed and not _is_among(entity_type(urn), allowed):
            raise _refused(f"{urn[:MAX_SHOWN]!r} is a {entity_type(urn)}", f"URNs of {', '.join(allowed)}")


def _check_allowed(entries: Sequence[Mapping[str, Any]], values: Sequence[str | float]) -> None:
    allowed = [_plain(entry.get("value")) for entry in entries]
    for value in values:
        if value not in allowed:
            listed = ", ".join(str(item) for item in allowed[:MAX_LISTED])
            raise _refused(
                gettext("%(value)r is not an allowed value of the property") % {"value": str(value)[:MAX_SHOWN]}, listed
            )


def _plain(value: Any) -> Any:
    return next(iter(value.values()), None) if isinstance(value, Mapping) else value


def _is_among(kind: str, kinds: Sequence[str]) -> bool:
    return kind.casefold() in [other.casefold() for other in kinds]


def _refused(message: str, allowed: str) -> Invalid:
    return Invalid(message, field="detail", allowed=allowed)
