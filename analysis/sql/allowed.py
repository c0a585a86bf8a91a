"""Functions and system tables that statements may use.

Every other function is refused by its name: which of them read files, settings or other servers changes with each
version of an engine. The functions are listed in `functions/`, one file per dialect.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from analysis.sql.lexer import SqlToken
from foundation.operations.errors import Invalid

FOLDER = Path(__file__).with_name("functions")
SYSTEM_SCHEMAS = {"pg_catalog", "information_schema", "main", "system", "temp", "pg_toast", "sys"}
SYSTEM_NAME = re.compile(r"(?:duckdb|pragma|sqlite|pg)_\w+")
# Texts that are no such name in FROM are far more common, so only the names of tables that exist are looked for.
DUCKDB_SYSTEM_TEXT = re.compile(
    r"(?:duckdb|pragma|sqlite)_\w+|pg_(?:settings|database|proc|tablespace|prepared_statements|am|collation|depend)"
)
CATALOG = {
    "pg_catalog", "pg_attribute", "pg_class", "pg_constraint", "pg_description", "pg_enum", "pg_index", "pg_indexes",
    "pg_matviews", "pg_namespace", "pg_tables", "pg_type", "pg_views",
}  # fmt: skip
DUCKDB_CATALOG = {
    "duckdb_columns", "duckdb_constraints", "duckdb_indexes", "duckdb_keywords", "duckdb_schemas", "duckdb_tables",
    "duckdb_types", "duckdb_views", "pg_attrdef", "pg_sequence", "pg_sequences",
}  # fmt: skip
SYSTEM_TABLES = {"duckdb": CATALOG | DUCKDB_CATALOG, "postgres": CATALOG}
INFORMATION_SCHEMA = {
    "character_sets", "check_constraints", "columns", "constraint_column_usage", "constraint_table_usage", "domains",
    "element_types", "key_column_usage", "referential_constraints", "schemata", "table_constraints", "tables", "views",
}  # fmt: skip
# Qualifiers of functions that are the engine's own.
BUILT_IN = {"postgres": {"pg_catalog"}, "trino": {"builtin"}, "duckdb": set[str]()}
# Types of PostgreSQL that turn a text into the identity of something in its catalog.
IDENTITY_TYPE = re.compile(r"reg(class|collation|config|dictionary|namespace|oper|operator|proc|procedure|role|type)")


@cache
def functions_of(dialect: str) -> frozenset[str]:
    """Return the names that a file of the folder lists."""
    lines = (FOLDER / f"{dialect}.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(name for line in lines if not line.startswith("#") for name in line.split())


def check_names(tokens: Sequence[SqlToken], dialect: str, declared: Collection[str] = ()) -> None:
    """Raise Invalid for a call of any other function, and for the name of a system table that isn't allowed.

    `declared` are the functions that the source's declaration allows in addition.
    """
    functions = functions_of(dialect) | {name.casefold() for name in declared}
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else None
        is_call = token.name and place + 1 < len(tokens) and tokens[place + 1].is_sign("(")
        if is_call and not _is_structure(tokens, place):
            _check_call(tokens, place, dialect, functions)
        elif token.name:
            _check_name(token, before, _qualifier(tokens, place), dialect)
        elif token.kind == "string" and dialect == "duckdb":
            _check_text(token, dialect)


def _is_structure(tokens: Sequence[SqlToken], place: int) -> bool:
    """Return whether the parentheses after this name belong to SQL's syntax, and not to a call."""
    token = tokens[place]
    before = tokens[place - 1] if place else None
    is_qualified = before is not None and before.is_sign(".")
    if is_qualified:
        return False
    if token.kind == "word" and token.name in functions_of("syntax"):
        return True
    if before is not None and before.is_word("as"):
        return True  # t(a, b) in FROM … AS t(a, b): no call can follow AS
    if before is not None and (before.is_word("with", "recursive") or before.is_sign(",")):
        return _is_query_name(tokens, place)
    return before is not None and before.is_sign(")") and _is_table_alias(tokens, place)


def _is_table_alias(tokens: Sequence[SqlToken], place: int) -> bool:
    """Return whether this is t in FROM (…) t(a, b) or FROM f(…) t(a, b), where no call can follow.

    A call can follow other parentheses, as in DISTINCT ON (a) f(b).
    """
    depth = 0
    opening = place - 1
    while opening >= 0:
        depth += tokens[opening].is_sign(")") - tokens[opening].is_sign("(")
        if depth == 0:
            break
        opening -= 1
    before = opening - 1
    if before >= 0 and tokens[before].name and not tokens[before].is_word("from", "join", "lateral"):
        before -= 1  # over the name of the function
    return before >= 0 and bool(tokens[before].is_word("from", "join", "lateral"))


def _is_query_name(tokens: Sequence[SqlToken], place: int) -> bool:
    """Return whether this is t in WITH t(a, b) AS (SELECT …)."""
    following = place + 2
    while following < len(tokens) and (tokens[following].name or tokens[following].is_sign(",")):
        following += 1
    rest = [token for token in tokens[following : following + 7] if not token.is_word("not", "materialized")]
    if len(rest) < 4 or not (rest[0].is_sign(")") and rest[1].is_word("as") and rest[2].is_sign("(")):
        return False
    # A list of columns follows AS after a function in FROM. It can't begin with a reserved word, and a type follows its
    # first word.
    is_values = rest[3].is_word("values") and len(rest) > 4 and rest[4].is_sign("(")
    return is_values or rest[3].is_word("select", "with", "from")


def _check_call(tokens: Sequence[SqlToken], place: int, dialect: str, functions: Collection[str]) -> None:
    token = tokens[place]
    qualifier = _qualifier(tokens, place)
    # In DuckDB, x.f(…) is f(x, …). In other engines, a qualified name is a function that somebody has created.
    is_foreign = dialect != "duckdb" and qualifier and qualifier not in BUILT_IN[dialect]
    name = f"{qualifier}.{token.name}" if is_foreign else token.name
    if name in functions:
        return
    near = ", ".join(get_close_matches(token.name[:60], sorted(functions), n=5, cutoff=0.6))
    raise Invalid(
        f"calls {name[:60]}, which is not on the list of functions for {dialect}",
        field="sql",
        allowed=(
            f"{near or 'functions that only compute'}; an operator can allow others with `functions` in the source; "
            "an alias with columns needs AS, as in AS t(a, b)"
        ),
    )


def _check_name(token: SqlToken, before: SqlToken | None, qualifier: str, dialect: str) -> None:
    name = token.name
    if dialect == "postgres" and IDENTITY_TYPE.fullmatch(name) and not _is_column(before, qualifier):
        raise Invalid(
            f"uses the type {name}, which reads the server's catalog",
            field="sql",
            allowed="names from information_schema as texts",
        )
    if qualifier == "information_schema":
        is_allowed = name in INFORMATION_SCHEMA
        allowed = ", ".join(sorted(INFORMATION_SCHEMA))
    elif dialect == "trino":
        is_allowed = qualifier not in ("system", "runtime", "jmx") and "$" not in name
        allowed = "tables of the source's own catalogs and information_schema, without columns and tables named with $"
    else:
        is_own = bool(qualifier) and qualifier not in SYSTEM_SCHEMAS
        is_system = bool(SYSTEM_NAME.fullmatch(name)) and not is_own
        is_allowed = not (is_system or qualifier in ("pg_catalog", "pg_toast")) or name in SYSTEM_TABLES[dialect]
        allowed = ", ".join(["information_schema", *sorted(SYSTEM_TABLES[dialect])])
    if not is_allowed:
        raise Invalid(
            f"names {name[:60]}, which belongs to the server; if it is a column of yours, write its table before it",
            field="sql",
            allowed=allowed,
        )


def _check_text(token: SqlToken, dialect: str) -> None:
    # DuckDB reads a text in FROM as the name of a table.
    name = token.text.rpartition(".")[2].strip('"')
    if DUCKDB_SYSTEM_TEXT.fullmatch(name.casefold()):
        _check_name(SqlToken("quoted", name, token.start), None, "", dialect)


def _is_column(before: SqlToken | None, qualifier: str) -> bool:
    return before is not None and before.is_sign(".") and qualifier not in SYSTEM_SCHEMAS


def _qualifier(tokens: Sequence[SqlToken], place: int) -> str:
    if place >= 2 and tokens[place - 1].is_sign("."):
        # what stands before the dot may be no name, as in (t).f(…)
        return tokens[place - 2].name or "(…)"
    return ""
