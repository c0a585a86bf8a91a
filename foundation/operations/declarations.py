"""Declarations of outer systems in TOML: reading them, and errors that name the field."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any, TypeVar

from django.utils.translation import gettext
from pydantic import BaseModel, ValidationError

from foundation.operations.errors import Invalid

MAX_NAME = 60  # characters of a name that an error repeats

Declared = TypeVar("Declared", bound=BaseModel)


def read_toml(text: str, field: str) -> dict[str, Any]:
    """Return the values of a TOML text. Raises Invalid, which names `field`, if it isn't valid TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(gettext("is not valid TOML: %(error)s") % {"error": error}, field=field) from None


def declared(model: type[Declared], name: str, values: Mapping[str, Any]) -> Declared:
    """Return the declaration of this name. Raises Invalid for the first value that is wrong, as `name.field`."""
    try:
        return model.model_validate({**values, "name": name})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join([name[:MAX_NAME], *map(str, first["loc"])])
        raise Invalid(first["msg"].removeprefix("Value error, "), field=path) from None
