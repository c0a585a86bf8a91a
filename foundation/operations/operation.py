"""Operations: the requests that the domain accepts, as pydantic models.

Tools, the REST API, forms, error texts and the reference documentation are derived from the model of an operation. The
model checks the arguments. The service that performs the operation checks permissions and the state of objects.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from django.utils.translation import gettext
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from foundation.operations import schemas
from foundation.operations.errors import Invalid
from foundation.operations.fields import TEXT_MAX, ResultLimit, kind_of

# Errors of fields whose type JSON lacks. A strict validator takes a text for them only when it reads JSON.
WITHOUT_JSON_TYPE = frozenset({"date_type", "datetime_type", "time_type", "time_delta_type", "is_instance_of"})


class Operation(BaseModel):
    """A request to the domain. Agents see the first line of a subclass's docstring as its description."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True, str_max_length=TEXT_MAX,
        defer_build=True,  # a process that only lists its tools needs no validators
    )  # fmt: skip

    synonyms: ClassVar[Mapping[str, str]] = {}  # alternative name → argument name, for agents and older clients

    @classmethod
    @functools.cache
    def input_schema(cls, *, by_alias: bool = True) -> schemas.Schema:
        """Return the lean JSON schema of the arguments. `by_alias=False` uses field names instead of their aliases."""
        schema = schemas.lean(cls.model_json_schema(by_alias=by_alias))
        schema.pop("description", None)
        return schema

    @classmethod
    def rename(cls, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Replace synonyms by argument names. Raise Invalid if an argument is passed under both names."""
        for other_name, name in cls.synonyms.items():
            if other_name in arguments and name in arguments:
                raise Invalid(
                    gettext("means the same as %(name)s") % {"name": name},
                    field=other_name,
                    allowed=gettext("one of the two"),
                )
        return {cls.synonyms.get(name, name): value for name, value in arguments.items()}

    @classmethod
    def read(cls, arguments: Mapping[str, Any], *, by_alias: bool = True, strict: bool = False) -> Self:
        """Create the operation from arguments, where None counts as absent. Raise Invalid if an argument is wrong.

        `by_alias` only affects the argument names in the error message. Unless `strict`, texts and numbers stand for
        numbers and booleans, as models and forms write them. With `strict`, arguments are those of a JSON document,
        where a text stands only for what JSON has no type for, such as a date.
        """
        present = cls.rename({name: value for name, value in arguments.items() if value is not None})
        try:
            return cls._validated_strictly(present) if strict else cls.model_validate(present)
        except ValidationError as error:
            aliases = {} if by_alias else {field.alias: name for name, field in cls.model_fields.items() if field.alias}
            raise to_invalid(error, cls.input_schema(by_alias=by_alias), aliases=aliases) from None

    @classmethod
    def _validated_strictly(cls, present: Mapping[str, Any]) -> Self:
        try:
            return cls.model_validate(present, strict=True)
        except ValidationError as error:
            if not any(item["type"] in WITHOUT_JSON_TYPE for item in error.errors(include_url=False)):
                raise
        return cls.model_validate_json(json.dumps(present, ensure_ascii=False, default=str).encode(), strict=True)

    @classmethod
    def lowered(cls, given: Mapping[str, Any], returned: int) -> str:
        """Return a sentence on the arguments that count as their maximum because they are larger, or "".

        `returned` is the number of results. If they are fewer than the maximum, there are no more.
        """
        sentences = []
        for name, field in cls.model_fields.items():
            value = str(given.get(field.alias or name, given.get(name, "")))
            maximum = next((item.maximum for item in field.metadata if isinstance(item, ResultLimit)), None)
            if maximum is not None and value.isdecimal() and int(value) > maximum <= returned:
                sentences.append(
                    gettext("%(name)s counts as %(maximum)s, the maximum, so there may be more")
                    % {"name": field.alias or name, "maximum": maximum}
                )
        return "; ".join(sentences)

    def values(self, *names: str) -> dict[str, Any]:
        """Return the values of the fields `names`, or of all fields if no names are given."""
        return {name: getattr(self, name) for name in names or type(self).model_fields}

    def explicit_values(self, *names: str) -> dict[str, Any]:
        """Like `values`, but return only fields that the caller passed."""
        return {name: value for name, value in self.values(*names).items() if name in self.model_fields_set}

    @classmethod
    def short_description(cls) -> str:
        return (cls.__doc__ or "").strip().split("\n")[0].rstrip(".")


@functools.cache
def _adapter(kind: Any) -> tuple[TypeAdapter[Any], schemas.Schema]:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    return adapter, schemas.lean(adapter.json_schema())


def validate(kind: Any, value: Any, field: str) -> Any:
    """Validate one value as a field of type `kind`. Raise Invalid naming `field`."""
    adapter, schema = _adapter(kind)
    if value is None or (value == "" and schema.get("minLength")):
        raise Invalid(gettext("is missing"), field=field, allowed=schemas.allowed(schema))
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise to_invalid(error, schema, field) from None


def to_invalid(
    error: ValidationError, schema: Mapping[str, Any], field: str = "", aliases: Mapping[str, str] | None = None
) -> Invalid:
    """Convert one of the validation errors to Invalid. `aliases` maps the names of tool arguments to field names."""
    errors = error.errors(include_url=False)
    # An unknown argument is reported first, because it may be a missing argument with a misspelled name.
    first = next((item for item in errors if item["type"] == "extra_forbidden"), errors[0])
    path = [step for step in first["loc"] if isinstance(step, int) or step.isidentifier()]
    if aliases and path:
        path[0] = aliases.get(str(path[0]), path[0])
    context = first.get("ctx", {})
    value = first["input"]
    part = schemas.at(schema, path)
    allowed = schemas.allowed(part)
    match first["type"]:
        case "refused":
            problem = context["fault"]
            allowed = context["allowed"]
            path += [context["field"]] if context["field"] else []
        case "missing":
            problem = gettext("is missing")
        case "extra_forbidden":
            problem = gettext("is unknown")
            allowed = ", ".join(schemas.at(schema, path[:-1]).get("properties", {}))
        case "string_too_short" | "string_too_long":
            count = len(str(value))
            problem = gettext("has %(count)s characters") % {"count": count} if value else gettext("is missing")
            # The schema has no part for the values of a mapping.
            limits = {"minLength": context.get("min_length", 0), "maxLength": context.get("max_length", TEXT_MAX)}
            allowed = schemas.allowed_length(part if "maxLength" in part else limits)
        case "string_type":
            problem = gettext("is %(value)s") % {"value": kind_of(value)}
            allowed = allowed or gettext("text")
        case "too_long" | "too_short":
            problem = gettext("has %(count)s entries") % {"count": len(value)} if value else gettext("is empty")
        case "greater_than_equal" | "less_than_equal":
            problem = gettext("is %(value)s") % {"value": str(value)[:20]}
        case _:
            problem = gettext("is %(value)s") % {"value": kind_of(value)}
    return Invalid(problem, field=_path(field, path), allowed=allowed)


def _path(field: str, steps: Sequence[str | int]) -> str:
    path = field  # becomes, for example, related_columns[0].urn
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{step}" if path else step
    return path
