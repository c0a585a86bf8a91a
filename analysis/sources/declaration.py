"""Declarations of record sources: connection, paging and models, in TOML validated by pydantic."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import urlsplit

from django.conf import settings
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from foundation.operations.declarations import declared, read_toml
from foundation.operations.errors import Degraded, Invalid
from foundation.registry import Registry

TOKEN_NAME = re.compile(r"SOURCE_[A-Z0-9_]{1,80}")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,59}")
# Opens a model of a source, by the kind of the source. The arguments are the source, the model's declaration, and the
# user to impersonate, or "". It returns an Upstream (interface.py).
OPENERS: Registry[Callable[[Source, Resource, str], Any]] = Registry("kinds of sources")
Envelope = Literal["auto", "array", "data_meta", "drf", "hal", "link", "cursor"]


class SourcePart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class SourceConnection(SourcePart):
    """A declaration with the address of another system.

    Who may write files on this machine may name any host. A declaration in the admin may name hosts with public
    addresses, and those in ANALYSIS_PRIVATE_HOSTS.
    """

    _is_from_file: bool = PrivateAttr(default=False)  # not a field, because the text must not set it
    name: str

    def must_be_public(self, host: str) -> bool:
        return not self._is_from_file and host.lower() not in settings.ANALYSIS_PRIVATE_HOSTS

    def secret(self, name: str) -> str:
        """Return the value of an environment variable. Raises Degraded if it is unset or empty."""
        # The variable is read at each use, so that the credential is stored nowhere else.
        if not (value := os.environ.get(name, "")):
            raise Degraded(f"the source {self.name!r} needs the environment variable {name}")
        return value


class Attribute(SourcePart):
    type: Literal["string", "text", "integer", "number", "boolean", "date", "datetime", "enum", "array", "object"] = (
        "string"
    )
    description: str = ""
    values: tuple[str, ...] = ()
    writable: bool = True


class Association(SourcePart):
    """A relation to another model.

    With `belongs_to`, the ingested record has a field `{name}_id`, where `name` is the association's name. With
    `has_many`, the children are at `{endpoint}/{id}/{path}`. If `path` is empty, it is the association's name.
    """

    kind: Literal["belongs_to", "has_many"] = "belongs_to"
    model: str = ""
    path: str = ""


class Filter(SourcePart):
    """A filter, and the names of its query parameters: `param`, or `from_param` and `to_param` for ranges.

    If they are empty, the filter is sent as `{name}`, or as `{name}_from` and `{name}_to`.
    """

    type: Literal["text", "enum", "relation", "integer", "boolean", "date_range", "integer_range"] = "text"
    values: tuple[str, ...] = ()
    param: str = ""
    from_param: str = ""
    to_param: str = ""
    joined: bool = Field(
        default=False, description="send a list as one comma-separated value instead of repeating the parameter"
    )


class Resource(SourcePart):
    name: str = ""
    description: str = ""
    endpoint: str = ""
    path: str = Field(default="", description="for file sources: the file, relative to ANALYSIS_FILES")
    delimiter: str = Field(default="", max_length=1, description="for CSV files; detected if empty")
    encoding: str = Field(default="", description="for text files, such as utf-8 or latin-1; detected if empty")
    skip: int | None = Field(
        default=None, ge=0, le=100, description="for CSV files: rows before the header; detected if empty"
    )
    decimal: Literal["", ".", ","] = Field(
        default="",
        description="for CSV files: the decimal sign of numbers; the other one separates thousands; detected if empty",
    )
    id_field: str = "id"
    envelope: Envelope = "auto"
    page_param: str = "page"
    per_page_param: str = "per_page"
    cursor_param: str = "cursor"
    per_page_max: int = Field(default=200, ge=1, le=10_000)
    read_only: bool = True
    update_method: Literal["PATCH", "PUT", "POST"] = "PATCH"
    wrap: str = Field(default="", description="the JSON key that contains the attributes in an update request")
    urn: str = Field(default="", description="the URN of the model in the catalog")
    attributes: dict[str, Attribute] = {}
    associations: dict[str, Association] = {}
    filters: dict[str, Filter] = {}

    @field_validator("endpoint")
    @classmethod
    def _relative(cls, value: str) -> str:
        if "//" in value or ".." in value or re.search(r"[?#\s]", value):
            raise ValueError("must be a path below base_url")
        return value.strip("/")

    @field_validator("encoding")
    @classmethod
    def _known(cls, value: str) -> str:
        try:
            "".encode(value or "utf-8")
        except LookupError:
            raise ValueError("is not the name of a text encoding, such as utf-8 or latin-1") from None
        return value

    def children(self) -> dict[str, Association]:
        return {name: association for name, association in self.associations.items() if association.kind == "has_many"}


class Source(SourceConnection):
    kind: str = "rest"  # a key of OPENERS
    base_url: str = ""
    token_env: str = ""
    token_header: str = "Authorization"
    token_prefix: str = "Bearer "
    impersonation_header: str = ""
    rate_per_s: float = Field(default=20.0, gt=0, le=10_000)
    timeout_s: float = Field(default=15.0, gt=0, le=600)
    page_bytes: int = Field(
        default=20_000_000, ge=1_000, le=1_000_000_000, description="maximum size of a response, decompressed"
    )
    read_personas: tuple[str, ...] = Field(
        default=(), description="personas that may ingest and query; if empty, only operators"
    )
    act_personas: tuple[str, ...] = Field(
        default=(), description="personas that may update and delete; if empty, only admins"
    )
    models: dict[str, Resource]

    @model_validator(mode="after")
    def _complete(self) -> Source:
        if self.kind not in OPENERS:
            raise ValueError(f"kind must be one of {', '.join(OPENERS)}")
        if self.kind == "rest":
            parts = urlsplit(self.base_url)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
                raise ValueError("base_url must be http:// or https:// with a host and without credentials")
        for name, resource in self.models.items():
            if not NAME.fullmatch(name):
                raise ValueError(
                    f"models.{name}: a name consists of letters, digits and _, and doesn't begin with a digit"
                )
            if self.kind == "file" and not resource.path:
                raise ValueError(f"models.{name}.path is missing")
            if self.kind == "file" and resource.filters:
                raise ValueError(
                    f"models.{name}.filters: a file can't be filtered; filter with `where` after the ingest"
                )
        if self.token_env and not TOKEN_NAME.fullmatch(self.token_env):
            raise ValueError("token_env must begin with SOURCE_, so that no other secret is sent to an upstream")
        return self

    def token(self) -> str:
        """Return the credential, or "" if the source has no token_env. Raises Degraded like `secret`."""
        return self.secret(self.token_env) if self.token_env else ""


def kind_of(text: str) -> str:
    """Return the kind that a declaration names, or "" if it names none or isn't valid TOML."""
    try:
        return str(tomllib.loads(text).get("kind", ""))
    except tomllib.TOMLDecodeError:
        return ""


def parse(name: str, text: str, *, is_from_file: bool = False) -> Source:
    """Parse the TOML text of a declaration. Raises Invalid, which names the field, if the declaration is not valid."""
    declaration = read_toml(text, name)
    models = declaration.get("models")
    if not isinstance(models, dict) or not models:
        raise Invalid("is missing: declare at least one model", field=f"{name}.models", allowed="[models.NAME] tables")
    named_models = {key: {**model, "name": key} if isinstance(model, dict) else model for key, model in models.items()}
    source = declared(Source, name, {**declaration, "models": named_models})
    source._is_from_file = is_from_file
    return source
