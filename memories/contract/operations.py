"""An operation of the domain, declared once: what may be asked, as a pydantic model beside the service that does it.

Tools, the REST API, forms, error texts and the reference derive from the model; what it can't know (who may see what,
and what state things are in) is the service's.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from memories.contract import schemas
from memories.contract.errors import Invalid
from memories.contract.fields import kind_of


class Operation(BaseModel):
    """The docstring's first line says what is done."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True,
        defer_build=True,  # a process that only lists its tools validates nothing
    )  # fmt: skip

    synonyms: ClassVar[Mapping[str, str]] = {}  # other names of fields, which agents and older clients use

    @classmethod
    @functools.cache
    def input_schema(cls, *, by_alias: bool = True) -> schemas.Schema:
        """The lean JSON schema of what it takes, under the names of the tools or the fields' own."""
        schema = schemas.lean(cls.model_json_schema(by_alias=by_alias))
        schema.pop("description", None)
        return schema

    @classmethod
    def rename(cls, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments under the names of the fields. Raises Invalid where one comes under two names."""
        for other_name, name in cls.synonyms.items():
            if other_name in arguments and name in arguments:
                raise Invalid(f"means the same as {name}", field=other_name, allowed="one of the two")
        return {cls.synonyms.get(name, name): value for name, value in arguments.items()}

    @classmethod
    def read(cls, arguments: Mapping[str, Any], *, by_alias: bool = True) -> Self:
        """The checked operation. An argument that is null is as if absent. Raises Invalid for the first fault."""
        present = cls.rename({name: value for name, value in arguments.items() if value is not None})
        try:
            return cls.model_validate(present)
        except ValidationError as error:
            aliases = {} if by_alias else {field.alias: name for name, field in cls.model_fields.items() if field.alias}
            raise to_invalid(error, cls.input_schema(by_alias=by_alias), aliases=aliases) from None

    def values(self, *names: str) -> dict[str, Any]:
        """The fields by name, all or these."""
        return {name: getattr(self, name) for name in names or type(self).model_fields}

    def explicit_values(self, *names: str) -> dict[str, Any]:
        """Of these fields those that were said."""
        return {name: value for name, value in self.values(*names).items() if name in self.model_fields_set}

    @classmethod
    def short_description(cls) -> str:
        return (cls.__doc__ or "").strip().split("\n")[0].rstrip(".")


@functools.cache
def _adapter(kind: Any) -> tuple[TypeAdapter[Any], schemas.Schema]:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    return adapter, schemas.lean(adapter.json_schema())


def validate(kind: Any, value: Any, field: str) -> Any:
    """A single value as a field of this type would take it. Raises Invalid naming the field."""
    adapter, schema = _adapter(kind)
    if value is None or (value == "" and schema.get("minLength")):
        raise Invalid("is missing", field=field, allowed=schemas.allowed(schema))
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise to_invalid(error, schema, field) from None


def to_invalid(
    error: ValidationError, schema: Mapping[str, Any], field: str = "", aliases: Mapping[str, str] | None = None
) -> Invalid:
    """The first fault in our words: `field: fault; allowed: …`. `aliases` maps the tools' names to the fields' own."""
    faults = error.errors(include_url=False)
    first = next((item for item in faults if item["type"] == "extra_forbidden"), faults[0])  # perhaps it was misspelt
    path = [step for step in first["loc"] if isinstance(step, int) or step.isidentifier()]
    if aliases and path:
        path[0] = aliases.get(str(path[0]), path[0])
    context, value = first.get("ctx", {}), first["input"]
    part = schemas.at(schema, path)
    allowed = schemas.allowed(part)
    match first["type"]:
        case "refused":
            says, allowed = context["fault"], context["allowed"]
            path += [context["field"]] if context["field"] else []
        case "missing":
            says = "is missing"
        case "extra_forbidden":
            says, allowed = "is unknown", ", ".join(schemas.at(schema, path[:-1]).get("properties", {}))
        case "string_too_short" | "string_too_long":
            says = "is missing" if not value else f"has {len(str(value))} characters"
            allowed = allowed.removeprefix("text of ")
        case "too_long" | "too_short":
            says = f"has {len(value)} entries" if value else "is empty"
        case "greater_than_equal" | "less_than_equal":
            says = f"is {str(value)[:20]}"
        case _:
            says = f"is {kind_of(value)}"
    return Invalid(says, field=_path(field, path), allowed=allowed)


def _path(field: str, steps: Sequence[str | int]) -> str:
    """`related_columns[0].urn`."""
    path = field
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path
