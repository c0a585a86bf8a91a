"""Check that a text is one statement that only reads.

sqlglot's parser of the engine's dialect says what kind of statement it is. The functions and system tables are checked
in its tokens (see allowed.py), because the parser gives several functions the same name.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from types import NoneType
from typing import Any

from analysis.sql import parsing
from analysis.sql.allowed import check_names
from analysis.sql.lexer import tokens_of
from foundation.operations.errors import Invalid

WRITING_NODES = (  # classes of sqlglot nodes that a query may not contain
    "Insert", "Update", "Delete", "Merge", "Create", "Drop", "Alter", "Command", "Copy", "Set", "Use", "Pragma",
    "Attach", "Detach", "TruncateTable", "Into", "Lock", "Transaction", "Commit", "Rollback", "Kill", "Grant",
    "Analyze", "LoadData", "Export", "Install", "Execute", "Cache", "Refresh", "Declare",
)  # fmt: skip
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
HISTOGRAM = "histogram"
ALLOWED = (
    "one SELECT, or what the engine has of DESCRIBE, SUMMARIZE, PIVOT, EXPLAIN of one of these, SHOW TABLES, "
    "SHOW COLUMNS and SHOW SCHEMAS"
)


def check_reads(sql: str, dialect: str, functions: Collection[str] = ()) -> None:
    """Raise Invalid for anything but a single statement that only reads, and only calls functions that are allowed.

    `functions` are the functions that the source's declaration allows in addition.
    """
    tokens_of(sql, dialect)  # before a parser reads the text, which may be nested without limit
    word, rest = _first_word(sql, dialect)
    if word == "show":
        _check_show(rest, dialect)
        return
    # The statement of an EXPLAIN is checked even without ANALYZE, which would execute it.
    statement = explained(sql, dialect)
    tree = _parse(statement, dialect)
    _check_kind(tree)
    tokens = tokens_of(statement, dialect)
    check_names(tokens, dialect, functions)
    if dialect == "duckdb":
        following = [*tokens[1:], None]
        calls = [token for token, after in zip(tokens, following, strict=True) if after and after.is_sign("(")]
        _check_histograms(tree, sum(token.name == HISTOGRAM for token in calls))


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


def _check_kind(tree: Any) -> None:
    kinds = {kind.__name__ for node in tree.walk() for kind in type(node).__mro__}
    if writing := sorted(kinds & set(WRITING_NODES)):
        raise Invalid(f"writes or changes something ({writing[0]})", field="sql", allowed=ALLOWED)
    if not {kind.__name__ for kind in type(tree).__mro__} & set(READING_NODES):
        raise Invalid(f"is a {type(tree).__name__}", field="sql", allowed=ALLOWED)


def _check_histograms(tree: Any, count: int) -> None:
    """Raise Invalid unless all of the `count` calls of DuckDB's histogram aggregate a column.

    In FROM, it is another function, which takes the name of a table as a text and would read any table.
    """
    from sqlglot import exp  # noqa: PLC0415 - only this tool needs it

    for function in tree.find_all(exp.Anonymous):
        if function.name.casefold() == HISTOGRAM:
            node = function
            while node.parent is not None and not isinstance(node.parent, exp.Select | exp.Pivot):
                node = node.parent
            count -= node.arg_key in ("expressions", "using", "having", "order", "qualify")
    if count:
        raise Invalid("uses histogram as a table", field="sql", allowed="histogram of a column, after SELECT")


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
