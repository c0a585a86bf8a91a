"""Requested catalog changes, the context in which they are planned, and the steps of a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from django.utils import timezone
from django.utils.translation import gettext
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema

from foundation.operations.errors import Invalid
from foundation.operations.fields import OneOf, Text, validation_error
from foundation.operations.schemas import EXACT
from foundation.registry import Registry
from knowledge.catalog.entity_view import EntityView
from knowledge.catalog.interface import Value, Write, make_urn

CHANGE_TYPES: Registry[ChangeType] = Registry("change types")
MAX_DETAIL = 10_000
MAX_TARGET = 500


# Keys that synthesize adds to its proposals. Requests may contain them, but they are ignored.
PROPOSED_ONLY = {"current_value", "source_insight_ids"}
OLDER_NAMES = {"action_type": "change_type", "suggested_value": "detail"}
LongText = Annotated[str, Text(0, MAX_DETAIL)]


class Request(BaseModel):
    """One requested change."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True, defer_build=True
    )

    change_type: Annotated[str, OneOf(CHANGE_TYPES)]
    target: Annotated[str, Text(0, MAX_TARGET)] = ""
    detail: LongText = ""
    query_sql: LongText = Field("", validate_default=True)
    query_description: LongText = ""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler.resolve_ref_schema(handler(core))
        name = next(iter(schema["properties"]))  # change_type, or its alias action_type
        schema["properties"][name] |= {
            "description": cls.describe_types(),
            EXACT: {"description": cls.describe_types(is_whole=True)},
        }
        del schema["description"]
        return schema

    @classmethod
    def describe_types(cls, *, is_whole: bool = False) -> str:
        return "Each takes the same target and detail as in suggested_actions of capture_insight."

    @model_validator(mode="before")
    @classmethod
    def _rename(cls, value: Any) -> Any:
        """Also accept the keys of suggested actions and of synthesize's proposals, and None as an empty text."""
        if not isinstance(value, Mapping):
            return value
        fields = {OLDER_NAMES.get(name, name): item for name, item in value.items() if name not in PROPOSED_ONLY}
        return {name: "" if item is None else item for name, item in fields.items()}

    @field_validator("query_sql")
    @classmethod
    def _has_statement(cls, query_sql: str, info: ValidationInfo) -> str:
        if info.data.get("change_type") == "add_curated_query" and not query_sql:
            raise validation_error(gettext("is missing"), gettext("an SQL statement of 1 to 10,000 characters"))
        return query_sql

    def as_action(self) -> dict[str, str]:
        """Return the form in which `Insight.suggested_actions` stores the change."""
        extras = {"query_sql": self.query_sql, "query_description": self.query_description}
        texts = {name: text for name, text in extras.items() if text}
        return {"action_type": self.change_type, "target": self.target, "detail": self.detail, **texts}


class Action(Request):
    """A change that an insight suggests. Its schema says what each change type expects."""

    change_type: Annotated[str, OneOf(CHANGE_TYPES)] = Field(alias="action_type")

    @classmethod
    def describe_types(cls, *, is_whole: bool = False) -> str:
        return usage(is_whole=is_whole)


@dataclass(frozen=True)
class Context:
    """The input of a plan function besides the request."""

    urn: str  # URN of the entity to change, or ""
    entity: EntityView | None  # current state of that entity; None if `urn` is empty
    actor: str  # e-mail address of the curator, or "preview"
    changeset: str  # id of the changeset in hexadecimal digits, or "preview"
    find_term: Callable[[str], str]  # returns the URN of the glossary term with this name, or ""
    exists: Callable[[str], bool]  # returns whether the catalog has an entity with this URN
    read: Callable[[str, str], Value | None]  # returns the aspect of this name of the entity with this URN
    authors: tuple[str, ...] = ()  # e-mail addresses of the insights' authors

    @property
    def stamp(self) -> dict[str, Any]:
        return {"time": int(timezone.now().timestamp() * 1000), "actor": make_urn("corpuser", self.actor)}


@dataclass(frozen=True)
class ChangeType:
    """One kind of change to the catalog."""

    name: str
    kinds: tuple[str, ...]  # entity types that it applies to; empty if it needs no entity
    plan: Callable[[Request, Context], list[ChangeStep]]
    label: str  # label on pages
    target: str = ""  # expected target, in words
    detail: str = ""  # expected detail, in words
    is_rare: bool = False  # tools describe its target and detail in errors only


@dataclass(frozen=True)
class ChangeStep:
    """A write, and whether it creates the entity."""

    write: Write
    creates: bool = False


def usage(*, is_whole: bool) -> str:
    """Return the expected target and detail of change types, grouping types that expect the same.

    Unless the text `is_whole`, rare types are left out.
    """
    names: dict[tuple[str, str], list[str]] = {}
    for change_type in CHANGE_TYPES.values():
        if change_type.is_rare and not is_whole:
            continue
        names.setdefault((change_type.target or "-", change_type.detail or "-"), []).append(change_type.name)
    groups = [f"{', '.join(group)}: {target} | {detail}" for (target, detail), group in names.items()]
    rest = "" if is_whole else " An error says it of the others."
    return f"What target | detail hold for each: {'; '.join(groups)}.{rest}"


def add(urn: str, aspect: str, path: tuple[str, ...], value: Any) -> ChangeStep:
    return ChangeStep(Write(urn, aspect, path, "add", value))


def remove(urn: str, aspect: str, path: tuple[str, ...]) -> ChangeStep:
    return ChangeStep(Write(urn, aspect, path, "remove"))


def detail_of(request: Request, allowed: str) -> str:
    if not request.detail.strip():
        raise Invalid(gettext("is missing"), field="detail", allowed=allowed)
    return request.detail.strip()
