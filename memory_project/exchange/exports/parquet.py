"""Export of memories as a Parquet file, which DuckDB writes from a temporary file of JSON lines."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from django.contrib.postgres.fields import ArrayField
from django.db.models import BooleanField, DateTimeField, FloatField, IntegerField

from memories.portability import Values
from memories.portable_kinds import kinds

SQL_TYPES = (
    (ArrayField, "VARCHAR[]"),
    (BooleanField, "BOOLEAN"),
    (DateTimeField, "TIMESTAMPTZ"),
    (FloatField, "DOUBLE"),
    (IntegerField, "BIGINT"),
)
MAX_LINE = 16_000_000  # bytes of a memory as JSON


def columns() -> list[str]:
    """Return the columns of a table of memories."""
    return kinds()["memory"].keys


def write_parquet(rows: Iterator[Values], out: IO[bytes]) -> None:
    with tempfile.TemporaryDirectory(prefix="commonplace-export-") as name:
        lines = Path(name) / "memories.jsonl"
        table = Path(name) / "memories.parquet"
        keys = columns()
        with lines.open("w", encoding="utf-8") as file:
            for row in rows:
                if row["kind"] == "memory":
                    file.write(json.dumps({key: _flat(row[key]) for key in keys}) + "\n")
        _convert(lines, table, name)
        with table.open("rb") as written:
            shutil.copyfileobj(written, out)


def _convert(lines: Path, table: Path, folder: str) -> None:
    import duckdb  # noqa: PLC0415 - slow to import, and few processes need it

    types = {key: _sql_type(key) for key in columns()}
    with duckdb.connect(config={"memory_limit": "256MB", "threads": 1, "temp_directory": folder}) as database:
        database.execute("SET TimeZone = 'UTC'")
        database.execute("SET autoinstall_known_extensions = false")
        source = database.read_json(str(lines), columns=types, format="newline_delimited", maximum_object_size=MAX_LINE)
        source.write_parquet(str(table), compression="zstd")


def _sql_type(key: str) -> str:
    kind = kinds()["memory"]
    if key in kind.extra:
        return "BOOLEAN"
    column = kind.field_of(key)
    return next((sql_type for column_type, sql_type in SQL_TYPES if isinstance(column, column_type)), "VARCHAR")


def _flat(value: object) -> object:
    """Return JSON values as their text, except for lists of texts, which have a column type of their own."""
    if isinstance(value, dict) or (isinstance(value, list) and not all(isinstance(item, str) for item in value)):
        return json.dumps(value, ensure_ascii=False)
    return value
