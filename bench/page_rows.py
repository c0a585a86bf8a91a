"""Rows of test data, written by INSERT … SELECT, because there are hundreds of thousands of them.

Every value is an SQL expression of the row's number n, so two runs make the same data. Columns that are not named get
the default of their model, so a new column needs no change here.
"""

# ruff: noqa: S608 - expressions of SQL are easier to compare in one line each, and all of them are constants
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

CURATOR, ADMIN = "curator@bench.example", "admin@bench.example"
PLACEHOLDER = "¤"  # stands for a value of a statement until its per cent signs are doubled
STATES = ("pending", "pending", "approved", "rejected", "applied")
SENTENCES = (
    "The %3$s of %1$s excludes %4$s that were cancelled before %2$s was filled",
    "%2$s in %1$s is the %3$s before %4$s, in euros",
    "Never join %1$s on %2$s alone: one of the %4$s can have several rows of %3$s",
    "Since March the %4$s in %1$s include the %3$s of outlets",
    "%1$s is refreshed at 6:00, so the %3$s of %4$s lag behind by a day",
    "For %3$s by region use %1$s, not the old %4$s sheet",
    "A negative %2$s in %1$s means that the %4$s were reversed, not that the %3$s is wrong",
    "Finance reports %3$s net of %4$s, as %1$s does in %2$s",
)
WORDS = [
    "revenue", "refunds", "orders", "returns", "shipments", "stock", "suppliers", "prices", "discounts", "visitors",
    "sessions", "carts", "stores", "ledger", "currency", "exchange", "tills", "training", "outlets", "vouchers",
    "exports", "invoices", "margin", "tax", "customers", "loyalty", "regions", "pallets",
]  # fmt: skip
SCHEMAS = ("sales", "supply", "finance", "web", "stores", "people")


@dataclass(frozen=True)
class Size:
    """Numbers of rows, and whether they are distributed unevenly.

    With `is_skewed`, the first owner has three quarters of the memories, one tag is on half of them, there are 5,000
    tags and 200 personas, the curator holds all personas, most people hold the first one, and most memories are shared
    with everyone.
    """

    memories: int = 200_000
    is_skewed: bool = False
    owners: int = 500

    def share(self, most: int) -> int:
        """Return `most` rows for 200,000 memories, and proportionally fewer for fewer memories, but at least 40."""
        return max(40, min(most, most * self.memories // 200_000))

    @property
    def personas(self) -> int:
        return 200 if self.is_skewed else 20

    @property
    def tags(self) -> int:
        return 5_000 if self.is_skewed else 300

    @property
    def entities(self) -> int:
        return self.share(10_000)

    @property
    def insights(self) -> int:
        return self.share(12_500)  # two of five are waiting


def text_array(values: Any) -> str:
    return "ARRAY[" + ", ".join("'" + value.replace("'", "''") + "'" for value in values) + "]"


def dice(seed: int, sides: int, n: str = "n") -> str:
    """Return SQL for a number from 0 to sides - 1 that depends on the row's number only."""
    return f"mod(abs(hashint8extended({n}, {seed}) / 2), {sides})::int"


def rare(seed: int, sides: int, n: str = "n") -> str:
    """Return SQL for a number like `dice`, small numbers being more frequent than large ones."""
    return f"floor({sides} * power({dice(seed, 10_000, n)} / 10000.0, 3))::int"


def one_of(values: Any, seed: int, n: str = "n") -> str:
    return f"({text_array(values)})[1 + {dice(seed, len(values), n)}]"


def key(kind: str, n: str = "n") -> str:
    return f"md5('{kind} ' || ({n}))::uuid"


def ago(seed: int, minutes: int, n: str = "n") -> str:
    return f"now() - interval '1 minute' * {dice(seed, minutes, n)}"


def owner(n: str = "n") -> str:
    return f"'owner' || ({n}) || '@bench.example'"


def urn(n: str) -> str:
    return f"'urn:li:dataset:(urn:li:dataPlatform:snowflake,' || {table_name(n)} || ',PROD)'"


def table_name(n: str) -> str:
    return f"'fernhill.' || ({text_array(SCHEMAS)})[1 + ({n}) % {len(SCHEMAS)}] || '.table_' || ({n})"


def sentence(seed: int, entity: str, n: str = "n") -> str:
    words = ", ".join(one_of(WORDS, seed + k, n) for k in (1, 2))
    return f"format({one_of(SENTENCES, seed, n)}, {table_name(entity)}, 'column_' || {dice(seed + 3, 20, n)}, {words})"


def insert(model: Any, count: int | str, /, **columns: str) -> None:
    """Insert rows: `count` of them, numbered n from 0, or one for each row of a FROM clause."""
    from django.db import connection, models  # noqa: PLC0415 - after setup()

    rows = f"generate_series(0, {count - 1}) n" if isinstance(count, int) else count
    values: dict[str, str] = {}
    params: list[Any] = []
    known = {field.attname for field in model._meta.concrete_fields}
    if unknown := set(columns) - known:
        raise ValueError(f"{model.__name__} has no {unknown}")
    for field in model._meta.concrete_fields:
        column = str(field.column)
        if field.attname in columns:
            values[column] = columns[field.attname]
        elif isinstance(field, models.UUIDField) and field.primary_key:
            values[column] = "gen_random_uuid()"
        elif not field.generated and not isinstance(field, models.AutoField):
            values[column] = PLACEHOLDER
            params.append(field.get_db_prep_save(field.get_default(), connection))
    names = ", ".join(f'"{name}"' for name in values)
    sql = f'INSERT INTO "{model._meta.db_table}" ({names}) SELECT {", ".join(values.values())} FROM {rows}'
    with connection.cursor() as cursor:
        cursor.execute(sql.replace("%", "%%").replace(PLACEHOLDER, "%s"), params)
