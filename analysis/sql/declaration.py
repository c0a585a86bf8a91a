"""Declarations of the warehouses that query_sql reads: engine, connection, permitted personas and limits."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from analysis.sources.declaration import TOKEN_NAME, SourceConnection, kind_of
from foundation.operations.declarations import declared, read_toml

FunctionName = Annotated[str, StringConstraints(pattern=r"^\w+(\.\w+)?$", max_length=130)]
DUCKDB_FILE = re.compile(r"[\w-]+(?:/[\w-]+)*\.(?:duckdb|db)")


class SqlSource(SourceConnection):
    """The declaration of a warehouse.

    The credential of a PostgreSQL or Trino warehouse is in an environment variable, and should belong to a read-only
    role.
    """

    kind: Literal["sql"]
    engine: Literal["duckdb", "postgresql", "trino"]
    description: str = ""
    database: str = Field(default="", description="for DuckDB: a file below ANALYSIS_FILES")
    dsn_env: str = Field(default="", description="for PostgreSQL: the environment variable with the connection string")
    url: str = Field(default="", description="for Trino: http(s)://user@host:port/catalog/schema")
    password_env: str = Field(default="", description="for Trino: the environment variable with the password")
    platform: str = Field(
        default="", description="the platform's name in the catalog, to find the tables of this warehouse there"
    )
    read_personas: tuple[str, ...] = Field(default=(), description="personas that may query; if empty, only operators")
    functions: tuple[FunctionName, ...] = Field(
        default=(), description="functions that statements may call beside the engine's own, such as pricing.net"
    )
    rows: int = Field(default=1_000, ge=1, le=100_000, description="maximum number of rows in a response")
    timeout_s: float = Field(default=30.0, gt=0, le=600)

    @model_validator(mode="after")
    def _complete(self) -> SqlSource:
        field_name = {"duckdb": "database", "postgresql": "dsn_env", "trino": "url"}[self.engine]
        if not getattr(self, field_name):
            raise ValueError(f"{field_name} is missing: {self.engine} needs it")
        if self.database and not DUCKDB_FILE.fullmatch(self.database):
            raise ValueError("database must be a .duckdb or .db file below ANALYSIS_FILES")
        for name in (self.dsn_env, self.password_env):
            if name and not TOKEN_NAME.fullmatch(name):
                raise ValueError("dsn_env and password_env must begin with SOURCE_, so that no other secret is sent")
        if self.url and not re.match(r"https?://[^\s/@]+@[^\s/@]+", self.url):
            raise ValueError("url must be http(s)://user@host:port/catalog/schema")
        return self


def is_sql(text: str) -> bool:
    """Return whether the text declares a warehouse. Returns False for invalid TOML."""
    return kind_of(text) == "sql"


def parse(name: str, text: str, *, is_from_file: bool = False) -> SqlSource:
    """Parse a text for which is_sql() is true. Raises Invalid, which names the field, if a value is not valid."""
    source = declared(SqlSource, name, read_toml(text, name))
    source._is_from_file = is_from_file
    return source
