"""Types of operation fields.

Each type defines the JSON schema that clients see and a validator whose error names the allowed values. All limits on
values are defined here or in an operation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from typing import Annotated, Any
from uuid import UUID

from django.utils.translation import gettext
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    WithJsonSchema,
    with_config,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema
from typing_extensions import TypedDict

from foundation.operations import schemas
from foundation.operations.errors import Invalid, unknown
from foundation.operations.near_misses import nearest
from foundation.operations.timestamps import parse_timestamp
from foundation.registry import Registry

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # PostgreSQL's text stores neither NUL nor half a surrogate pair
URN_PATTERN = re.compile(r"urn:li:[A-Za-z][A-Za-z0-9]*:\S.*")
URN_LENGTH = 500
MAX_URNS = 10
MAX_MEMORY_IDS = 50
TAGS_MAX, TAG_LENGTH = 20, 80
MAX_COLUMNS = 20
CONTENT_MIN, CONTENT_MAX = 10, 4000  # characters of a memory's text, as the memory-layer contract requires
MAX_SUMMARY = 1000
MAX_REASON = 1000
ISO = "ISO 8601, for example 2026-03-31T12:00:00Z"
BOUND = "a date or time in ISO 8601, for example 2026-03-31, or none"
METADATA_BYTES = 16_000
METADATA_DEPTH = 20  # maximum number of nesting levels, because clients' JSON parsers have a limit, too
MAX_OFFSET = 1_000_000
TEXT_MAX = schemas.TEXT_MAX
# For objects in fields: rejects unknown keys and too long texts.
FORBID = ConfigDict(extra="forbid", str_max_length=TEXT_MAX)

# Functions that return the URN of the entity with a name. They raise Invalid if the name is unknown or ambiguous.
ENTITY_NAMES: Registry[Callable[[str], str]] = Registry("names of entities")


def validation_error(text: str, allowed: str = "", field: str = "") -> PydanticCustomError:
    """Create the error that a validator raises. A validator of a whole operation names the faulty `field`."""
    return PydanticCustomError("refused", "{fault}", {"fault": text, "allowed": allowed, "field": field})


@dataclass(frozen=True)
class Text:
    """Trimmed text of `low` to `high` characters."""

    low: int
    high: int

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        text = core_schema.str_schema(min_length=self.low or None, max_length=self.high)
        return core_schema.no_info_before_validator_function(trimmed, text)


@dataclass(frozen=True)
class Verbatim:
    """Text of 1 to `high` characters that is not trimmed. It must contain more than white space."""

    high: int

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        text = core_schema.str_schema(min_length=1, max_length=self.high)
        return core_schema.no_info_after_validator_function(_check_verbatim, text)


def _check_verbatim(text: str) -> str:
    if UNSTORABLE.search(text):
        raise validation_error(gettext("contains a NUL character or half a surrogate pair"), gettext("Unicode text"))
    if not text.strip():
        raise validation_error(gettext("is missing"), gettext("a text with more than white space"))
    return text


def kind_of(value: Any) -> str:
    number = gettext("a number")
    kinds = {
        bool: gettext("a boolean"),
        int: number,
        float: number,
        list: gettext("a list"),
        dict: gettext("an object"),
    }
    return f"{str(value)[:60]!r}" if isinstance(value, str) else kinds.get(type(value), type(value).__name__)


def trimmed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if UNSTORABLE.search(value):
        raise validation_error(gettext("contains a NUL character or half a surrogate pair"), gettext("Unicode text"))
    return value.replace("\r\n", "\n").strip()


def is_none(value: Any) -> bool:
    """Return whether a text says that there is no value, which removes the one that there was."""
    return isinstance(value, str) and value.strip().lower() in ("", "none")


class OneOf:
    """A text that must be one of `values`. Apps may add values later, because each validation reads `values` again."""

    def __init__(self, values: Iterable[str]) -> None:
        self.values = values

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._member)

    def _member(self, value: Any) -> str:
        if not isinstance(value, str) or value not in self.values:
            text = str(value)[:80]
            raise validation_error(unknown(text, nearest(text, self.values)), ", ".join(self.values))
        return str(value)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "enum": [str(value) for value in self.values]}


def _without_blanks_and_repeats(values: Any) -> Any:
    if isinstance(values, str) or not isinstance(values, Sequence) or not all(isinstance(v, str) for v in values):
        return values  # the field's own type reports the error
    return list(dict.fromkeys(text for value in values if (text := trimmed(value))))


def _urn(text: str) -> str:
    if not URN_PATTERN.fullmatch(text):
        raise validation_error(
            gettext("%(text)r is not a DataHub URN") % {"text": text[:80]}, gettext("urn:li:<entity type>:<key>")
        )
    return text


def _entity(text: str) -> str:
    if text.startswith("urn:") or not ENTITY_NAMES:
        return _urn(text)
    refusal = Invalid(gettext("is unknown"))
    for find_urn in ENTITY_NAMES.values():
        try:
            return find_urn(text)
        except Invalid as error:
            refusal = error
    raise validation_error(refusal.fault, refusal.allowed)


def _tag(text: str) -> str:
    if "," in text:
        raise validation_error(gettext("%(text)r contains a comma") % {"text": text}, gettext("texts without commas"))
    return text


def _id(value: Any) -> UUID:
    if isinstance(value, UUID):
        return value
    text = str(value).strip()
    # UUID() itself reads more, such as braces, hyphens anywhere and digits of other scripts
    if not re.fullmatch(ID_PATTERN, text):
        raise validation_error(gettext("%(text)r is not an id") % {"text": text[:80]}, gettext("32 hexadecimal digits"))
    return UUID(text)


def _timestamp(value: Any, time_of_date: time = time.max) -> datetime | None:
    if value is None or isinstance(value, datetime):
        return value
    instant = parse_timestamp(value, time_of_date) if isinstance(value, str) else None
    if instant is None:
        raise validation_error(gettext("%(value)r is not a time") % {"value": str(value)[:60]}, ISO)
    return instant


def _check_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise validation_error(f"is {kind_of(value)}", gettext("a JSON object"))
    _check_json(value)
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise validation_error(
            gettext("is not JSON (%(error)s)") % {"error": error}, gettext("a JSON object")
        ) from None
    if (size := len(text.encode())) > METADATA_BYTES:
        raise validation_error(
            gettext("has %(size)s bytes") % {"size": size},
            gettext("at most %(metadata_bytes)s bytes") % {"metadata_bytes": METADATA_BYTES},
        )
    return dict(value)


def _check_json(value: Any) -> None:
    pending = [(value, 1)]  # a stack, because a recursive check would fail on deep nesting
    while pending:
        item, depth = pending.pop()
        if depth > METADATA_DEPTH:
            raise validation_error(
                gettext("is nested too deeply"),
                gettext("at most %(metadata_depth)s levels") % {"metadata_depth": METADATA_DEPTH},
            )
        if isinstance(item, dict):
            pending += [(inner, depth + 1) for pair in item.items() for inner in pair]
        elif isinstance(item, list):
            pending += [(inner, depth + 1) for inner in item]
        elif isinstance(item, str) and UNSTORABLE.search(item):
            raise validation_error(
                gettext("contains a NUL character or half a surrogate pair"), gettext("Unicode text")
            )


CLAMPED = {"maximum": None}


@dataclass(frozen=True)
class ResultLimit:
    """Number of results, from 1 to `maximum`. A larger number is not an error and counts as `maximum`."""

    maximum: int

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        number = core_schema.int_schema(ge=1)
        limited = core_schema.no_info_after_validator_function(lambda value: min(value, self.maximum), number)
        limited["metadata"] = {"pydantic_js_updates": {"minimum": 1, "maximum": self.maximum, schemas.EXACT: CLAMPED}}
        return limited


class IfAny:
    """For optional fields: an empty text counts as absent."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = core_schema.no_info_before_validator_function(
            lambda value: None if value == "" else value, handler(source)
        )
        schema["metadata"] = {"pydantic_js_updates": {schemas.OR_EMPTY: True}}
        return schema


if_any = IfAny()
ID_PATTERN = "^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$"
Id = Annotated[
    UUID,
    PlainValidator(_id),
    WithJsonSchema(
        {
            "type": "string",
            schemas.ALLOWED: "an id of 32 hexadecimal digits",
            schemas.EXACT: {"pattern": ID_PATTERN},
        }
    ),
]
Urn = Annotated[
    str,
    Text(1, URN_LENGTH),
    AfterValidator(_urn),
    Field(json_schema_extra={schemas.ALLOWED: "urn:li:<entity type>:<key>"}),
]


# A URN, or a name that is resolved to the URN of the only entity with this name. A value is always a URN.
EntityUrn = Annotated[
    str,
    Text(1, URN_LENGTH),
    AfterValidator(_entity),
    Field(json_schema_extra={schemas.ALLOWED: "urn:li:<entity type>:<key>, or the name of a catalog entity"}),
]


@with_config(FORBID)
class Column(TypedDict):
    urn: Annotated[EntityUrn, Field(description="URN or name.")]
    column: Annotated[str, Text(1, 300)]
    relevance: Annotated[str, Text(1, 300)]


Urns = Annotated[
    list[EntityUrn],
    BeforeValidator(_without_blanks_and_repeats),
    AfterValidator(lambda urns: list(dict.fromkeys(urns))),  # a name and a URN may mean the same entity
    Field(max_length=MAX_URNS),
]
MemoryIds = Annotated[list[Id], AfterValidator(lambda ids: list(dict.fromkeys(ids))), Field(max_length=MAX_MEMORY_IDS)]
Tags = Annotated[
    list[Annotated[str, Text(1, TAG_LENGTH), AfterValidator(_tag)]],
    BeforeValidator(_without_blanks_and_repeats),
    Field(max_length=TAGS_MAX),
]
Columns = Annotated[list[Column], Field(max_length=MAX_COLUMNS)]
Content = Annotated[str, Text(CONTENT_MIN, CONTENT_MAX)]
Summary = Annotated[str, Text(0, MAX_SUMMARY)]
Reason = Annotated[str, Text(0, MAX_REASON)]
JsonObject = Annotated[dict[str, Any], PlainValidator(_check_object), WithJsonSchema({"type": "object"})]
Moment = Annotated[
    datetime,
    PlainValidator(_timestamp),
    WithJsonSchema({"type": "string", schemas.ALLOWED: ISO, schemas.EXACT: {"format": "date-time"}}),
]
# For the start of a span: a date means the start of that day.
StartMoment = Annotated[
    datetime,
    PlainValidator(lambda value: _timestamp(value, time.min)),
    WithJsonSchema({"type": "string", schemas.ALLOWED: ISO, schemas.EXACT: {"format": "date-time"}}),
]
# Bounds of a validity. An empty text or "none" removes the bound: tools take an empty text for an argument that is left
# out. A date means the start or the end of that day.
ValidFrom = Annotated[
    datetime | None,
    PlainValidator(lambda value: None if is_none(value) else _timestamp(value, time.min)),
    WithJsonSchema({"type": "string", schemas.ALLOWED: BOUND, schemas.OR_EMPTY: True}),
]
ValidUntil = Annotated[
    datetime | None,
    PlainValidator(lambda value: None if is_none(value) else _timestamp(value)),
    WithJsonSchema({"type": "string", schemas.ALLOWED: BOUND, schemas.OR_EMPTY: True}),
]
Offset = Annotated[int, Field(ge=0, le=MAX_OFFSET)]
