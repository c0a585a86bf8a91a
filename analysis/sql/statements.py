"""Check that a text is one statement that only reads, with sqlglot's parser of the engine's dialect."""

from __future__ import annotations

import re
from types import NoneType
from typing import Any

from analysis.sql import parsing
from memories.contract.errors import Invalid

WRITING_NODES = (  # classes of sqlglot nodes that a query may not contain
    "Insert", "Update", "Delete", "Merge", "Create", "Drop", "Alter", "Command", "Copy", "Set", "Use", "Pragma",
    "Attach", "Detach", "TruncateTable", "Into", "Lock", "Transaction", "Commit", "Rollback", "Kill", "Grant",
    "Analyze", "LoadData", "Export", "Install", "Execute",
)  # fmt: skip
# Matches the names of functions of any engine that run SQL given as a text, access files or other servers, or change
# the server.
UNSAFE_FUNCTIONS = re.compile(
    r"(pg_(read|ls|stat_file|terminate|cancel|reload|rotate|switch|promote|create|drop|logical|replication|advisory|try_"
    r"advisory|execute|file|stat_reset|notify|wal_replay)|lo_|dblink|set_config|nextval|setval|(query|table|schema|database|"
    r"cursor)_to_xml|query$|query_table|raw_query|execute|xp_|sp_|load_|read_|scan_|parquet_|sqlite_|postgres_|mysql_|glob$)",
    re.IGNORECASE,
)
# Classes of sqlglot nodes. The root of a query must be of one of them.
READING_NODES = ("Select", "SetOperation", "Subquery", "Values", "Pivot", "Describe", "Summarize")
# What may stand between EXPLAIN and its statement. sqlglot does not parse it.
EXPLAIN_OPTIONS = re.compile(
    r"(?:\s+(?:analy[zs]e|verbose)\b)*(?:\s*\(\s*(?:format|type|analy[zs]e|verbose|costs|settings|generic_plan|buffers|"
    r"serialize|wal|timing|summary|memory)\b[\w\s,]*\))?",
    re.IGNORECASE,
)
NAME = r'(?:"[^"]+"|\w+)(?:\s*\.\s*(?:"[^"]+"|\w+)){0,2}'
SHOWN = re.compile(
    rf"\s+(?:(?:all\s+)?tables|schemas|columns(?=\s+(?:from|in)\b))(?:\s+(?:from|in)\s+{NAME})?"
    r"(?:\s+like\s+'[^']*'(?:\s+escape\s+'[^']*')?)?\s*+;?\s*",
    re.IGNORECASE,
)
ALLOWED = (
    "one SELECT, or what the engine has of DESCRIBE, SUMMARIZE, PIVOT, EXPLAIN of one of these, SHOW TABLES, "
    "SHOW COLUMNS and SHOW SCHEMAS"
)


def check_reads(sql: str, dialect: str) -> None:
    """Raise Invalid for anything but a single statement that only reads."""
    word, rest = _first_word(sql, dialect)
    if word == "show":
        _check_show(rest, dialect)
    else:  # the statement of an EXPLAIN is checked even without ANALYZE, which would execute it
        _check_statement(explained(sql, dialect), dialect)


def explained(sql: str, dialect: str) -> str:
    """Return the statement inside an EXPLAIN, or any other text itself. Raises Invalid if it is no SQL."""
    word, rest = _first_word(sql, dialect)
    if word != "explain":
        return sql
    options = EXPLAIN_OPTIONS.match(rest)
    return rest[options.end() if options else 0 :]


def is_explain(sql: str, dialect: str) -> bool:
    return _first_word(sql, dialect)[0] == "explain"


def without_semicolon(sql: str, dialect: str) -> str:
    """Return a single statement without the semicolon and comments after it."""
    semicolons = (token.start for token in _tokens(sql, dialect) if token.token_type.name == "SEMICOLON")
    return sql[: next(semicolons, len(sql))]


def _first_word(sql: str, dialect: str) -> tuple[str, str]:
    """Return the first word after any comments, in lower case, and the text after it."""
    tokens = _tokens(sql, dialect)
    return (tokens[0].text.lower(), sql[tokens[0].end + 1 :]) if tokens else ("", "")


def _tokens(sql: str, dialect: str) -> list[Any]:
    import sqlglot  # noqa: PLC0415 - only this tool needs it

    try:
        return sqlglot.tokenize(sql, read=dialect or None)
    except (sqlglot.errors.SqlglotError, ValueError) as error:
        raise _not_sql(error, dialect) from None


def _check_show(rest: str, dialect: str) -> None:
    if dialect == "postgres":  # SHOW reads the server's settings, such as the paths of its files
        raise Invalid(
            "SHOW is not available in PostgreSQL",
            field="sql",
            allowed="a SELECT from information_schema.tables or information_schema.columns",
        )
    if not SHOWN.fullmatch(rest):
        raise Invalid("shows something other than tables, columns or schemas", field="sql", allowed=ALLOWED)


def _check_statement(sql: str, dialect: str) -> None:
    import sqlglot  # noqa: PLC0415 - only this tool needs it

    tree = _parse(sql, dialect)
    kinds = {kind.__name__ for node in tree.walk() for kind in type(node).__mro__}
    if writing := sorted(kinds & set(WRITING_NODES)):
        raise Invalid(f"writes or changes something ({writing[0]})", field="sql", allowed=ALLOWED)
    for function in tree.find_all(sqlglot.exp.Func):
        name = function.name if isinstance(function, sqlglot.exp.Anonymous) else function.sql_name()
        if UNSAFE_FUNCTIONS.match(name):
            raise Invalid(f"calls {name.lower()[:60]}, which does more than read tables", field="sql", allowed=ALLOWED)
    if not {kind.__name__ for kind in type(tree).__mro__} & set(READING_NODES):
        raise Invalid(f"is a {type(tree).__name__}", field="sql", allowed=ALLOWED)


def _parse(sql: str, dialect: str) -> Any:
    import sqlglot  # noqa: PLC0415 - only this tool needs it
    from sqlglot import exp  # noqa: PLC0415

    try:
        trees = [tree for tree in parsing.parse(sql, dialect) if not isinstance(tree, NoneType | exp.Semicolon)]
    except (sqlglot.errors.SqlglotError, RecursionError, ValueError) as error:
        raise _not_sql(error, dialect) from None
    if len(trees) != 1:
        raise Invalid(f"has {len(trees)} statements", field="sql", allowed="one")
    return trees[0]


def _not_sql(error: Exception, dialect: str) -> Invalid:
    line = (str(error).splitlines() or ["it can't be parsed"])[0]
    details = getattr(error, "errors", None)
    near = f" near {details[0]['highlight'][:60]!r}" if details and details[0].get("highlight") else ""
    return Invalid(f"is not {dialect} SQL: {line[:200]}{near}", field="sql", allowed=ALLOWED)
