"""What is declared of a warehouse that query_sql may ask: its engine, where it is, who may ask, and the bounds."""

from __future__ import annotations

import os
import re
import tomllib
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from analysis.sources.declaration import TOKEN_NAME, Part
from memories.contract.errors import Degraded, Invalid

DATABASE = re.compile(r"[\w-]+(?:/[\w-]+)*\.(?:duckdb|db)")


class SqlSource(Part):
    """A warehouse. The credential stays in an environment variable; a role that may only read belongs behind it."""

    name: str
    kind: Literal["sql"]
    engine: Literal["duckdb", "postgresql", "trino"]
    description: str = ""
    database: str = Field(default="", description="of DuckDB: a file below ANALYSIS_FILES")
    dsn_env: str = Field(default="", description="of PostgreSQL: the variable that holds the connection string")
    url: str = Field(default="", description="of Trino: http(s)://user@host:port/catalog/schema")
    password_env: str = Field(default="", description="of Trino: the variable that holds the password")
    platform: str = Field(default="", description="what the catalog calls the platform, to tell its tables from others")
    read_personas: tuple[str, ...] = Field(default=(), description="who may ask; without any, everybody")
    rows: int = Field(default=1_000, ge=1, le=100_000, description="most rows of an answer")
    timeout_s: float = Field(default=30.0, gt=0, le=600)

    @model_validator(mode="after")
    def _complete(self) -> SqlSource:
        field_name = {"duckdb": "database", "postgresql": "dsn_env", "trino": "url"}[self.engine]
        if not getattr(self, field_name):
            raise ValueError(f"{field_name} is missing: {self.engine} needs it")
        if self.database and not DATABASE.fullmatch(self.database):
            raise ValueError("database must be a .duckdb file below ANALYSIS_FILES")
        for name in (self.dsn_env, self.password_env):
            if name and not TOKEN_NAME.fullmatch(name):
                raise ValueError("dsn_env and password_env must begin with SOURCE_, so that no other secret is sent")
        if self.url and not re.match(r"https?://[^\s/@]+@[^\s/@]+", self.url):
            raise ValueError("url must be http(s)://user@host:port/catalog/schema")
        return self

    def secret(self, name: str) -> str:
        """What the variable holds, read when it is field_name and kept nowhere. Raises Degraded where it is not set."""
        if not (value := os.environ.get(name, "")):
            raise Degraded(f"the source {self.name!r} needs the environment variable {name}")
        return value


def is_sql(text: str) -> bool:
    """Whether a declaration is a warehouse's."""
    try:
        return bool(tomllib.loads(text).get("kind") == "sql")
    except tomllib.TOMLDecodeError:
        return False


def parse(name: str, text: str) -> SqlSource:
    """A declaration from its TOML. Raises Invalid naming the field."""
    declaration: dict[str, Any] = tomllib.loads(text)
    try:
        return SqlSource.model_validate({**declaration, "name": name})
    except ValidationError as error:
        first = error.errors()[0]
        raise Invalid(first["msg"], field=".".join([name, *map(str, first["loc"])])) from None
