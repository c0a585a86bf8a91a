"""The demo warehouse: a DuckDB file with the tables of the demo catalog, for query_sql."""

from __future__ import annotations

import json
import random
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings

from analysis.models import DeclaredSource

FILE = "fernhill.duckdb"  # DuckDB names the database after the file, so full table names begin with `fernhill.`
ROWS = 400
FIRST_DAY = date(2026, 1, 1)
SOURCE = f"""kind = "sql"
engine = "duckdb"
database = "{FILE}"
platform = "snowflake"
read_personas = ["sales-analytics", "supply-chain"]
description = "The retailer's warehouse: fernhill.sales.orders and its other tables."
"""
KINDS = {"NUMBER": "DOUBLE", "INTEGER": "INTEGER", "DATE": "DATE", "TIMESTAMP_TZ": "TIMESTAMP", "BOOLEAN": "BOOLEAN"}
CHOICES = {
    "channel": ["store", "web", "click_and_collect"], "currency": ["EUR", "CHF", "DKK"],
    "country": ["BE", "CH", "DK", "FR"],
    "status": ["closed", "open", "cancelled"], "region": ["north", "south", "west"], "reason_code": ["1", "3", "7"],
}  # fmt: skip


def tables(catalog: Path) -> dict[str, list[tuple[str, str]]]:
    """Return the columns of each Snowflake table in the demo catalog, as (name, DuckDB type), by table name."""
    columns: dict[str, list[tuple[str, str]]] = {}
    for row in json.loads(catalog.read_text()):
        if row["aspectName"] == "schemaMetadata" and "snowflake" in row["entityUrn"]:
            fields = row["aspect"]["json"]["fields"]
            columns[row["entityUrn"].split(",")[1]] = [
                (str(field["fieldPath"]), KINDS.get(str(field["nativeDataType"]), "VARCHAR")) for field in fields
            ]
    return columns


def make(catalog: Path) -> bool:
    """Create the file and declare it as a source. Does nothing and returns False if the file already exists."""
    import duckdb  # noqa: PLC0415 - only used for the demo

    folder = Path(settings.ANALYSIS_FILES)
    if (folder / FILE).exists():
        return False
    folder.mkdir(parents=True, exist_ok=True)
    dice = random.Random(2026)
    with duckdb.connect(str(folder / FILE)) as connection:
        for name, columns in tables(catalog).items():
            _, schema, table = name.split(".")
            connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
            kinds = ", ".join(f'"{column}" {kind}' for column, kind in columns)
            connection.execute(f'CREATE TABLE "{schema}"."{table}" ({kinds})')
            rows = [[_value(column, kind, number, dice) for column, kind in columns] for number in range(ROWS)]
            # all rows in one statement: each statement is a transaction that waits for the disk
            lists = ", ".join(f"unnest(?::{kind}[])" for _, kind in columns)
            connection.execute(f'INSERT INTO "{schema}"."{table}" SELECT {lists}', [*zip(*rows, strict=True)])
    DeclaredSource.objects.get_or_create(name="warehouse", defaults={"declaration": SOURCE})
    return True


def _value(column: str, kind: str, number: int, dice: random.Random) -> Any:
    if column in CHOICES:
        return dice.choice(CHOICES[column])
    if column.endswith("_id"):
        return str(1_000 + (number if number % 3 else dice.randrange(ROWS)))
    if kind == "BOOLEAN":
        return dice.random() < 0.02
    if kind in ("DATE", "TIMESTAMP"):
        return FIRST_DAY + timedelta(days=dice.randrange(320))
    if kind in ("DOUBLE", "INTEGER"):
        return round(dice.lognormvariate(3.5, 0.8), 2) if kind == "DOUBLE" else dice.randrange(1, 200)
    return f"{column} {dice.randrange(40)}"
