"""Tables, columns and literals of SQL statements.

A statement is parsed in the dialect of its warehouse. If that fails, names are found by the words before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from analysis.sql import parsing
from analysis.sql.engines import DIALECTS
from analysis.sql.statements import explained
from foundation.operations.errors import Invalid

MAX_SQL = 20_000  # maximum number of characters of a statement that is read
MAX_DEPTH = 100  # maximum depth of nested brackets in a statement that is parsed
MAX_NAMES = 40  # maximum number of tables, of columns, and of literals
MAX_LITERAL = 60  # maximum number of characters of a literal; a longer one is a text and not a value
BRACKETS = {"(": 1, ")": -1}
COMMENT = re.compile(r"--[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
LEADING = re.compile(r"(?:\s|\(|--[^\n]*|/\*.*?(?:\*/|\Z))*", re.DOTALL)  # what may precede a statement's first word
FIRST_WORD = re.compile(
    r"(?:with|select|from|explain|describe|desc|show|summarize|values|table|pivot|insert|update|delete|merge|create)\b",
    re.IGNORECASE,
)
# The quantifiers are possessive (`*+`), so that no text makes these patterns try one place twice.
PART = r'(?:[^\W\d][\w$]*+|"[^"\n]{1,200}+"|`[^`\n]{1,200}+`|\[[^\[\]\n]{1,200}+\])'
DOTTED = rf"(?<![\w./@])(?<![\w$]\$){PART}(?:\.(?:\w++|{PART})){{1,4}}(?![\w/@])(?!\.\w)"
NAME = rf"{PART}(?:\s?\.\s?{PART}){{0,3}}"
TABLE = re.compile(
    rf"\b(?:from|join|into|update|table|describe|desc|summarize)\s++(?:only\s++|lateral\s++)*+(?:\(\s*+)?"
    rf"(?!(?:where|select)\b)({NAME})(?!\s*\()",
    re.IGNORECASE,
)
# Further tables of a list, FROM a, b.
NEXT_TABLE = re.compile(
    rf"\s*+\)?\s*+(?:(?:as\s++)?(?!(?:where|join|on|group|order|limit)\b)\w++)?\s*+,\s*+(?:only\s++)?({NAME})(?!\s*\()",
    re.IGNORECASE,
)
CTE = re.compile(
    rf"(?:\bwith\s+(?:recursive\s+)?|,\s*)({PART})\s*+(?:\([^()]*+\)\s*+)?as\s+(?:not\s+)?(?:materialized\s+)?\(",
    re.IGNORECASE,
)
STRING = re.compile(r"'((?:[^']|'')*)'")
IDENTIFIER = re.compile(r"[^\W\d]\w*")
NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")


@dataclass(frozen=True)
class SqlStatement:
    tables: list[str] = field(default_factory=list)  # as written, without aliases and common table expressions
    columns: list[str] = field(default_factory=list)
    literals: list[str] = field(default_factory=list)
    is_parsed: bool = True
    reads_all: bool = False  # it has a *, so it reads columns that it does not name


def is_statement(text: str) -> bool:
    """Return whether the text begins like SQL, after comments and opening brackets."""
    start = LEADING.match(text[:MAX_SQL])
    return FIRST_WORD.match(text, start.end() if start else 0) is not None


def read_statement(sql: str, dialect: str = "") -> SqlStatement:
    """Return the names and literals of a statement.

    `dialect` is a dialect of sqlglot. If it is "", those of the engines are tried. A text that is too long, too deeply
    nested or no SQL of that dialect is not parsed: then columns are all its identifiers, words of the language
    included.
    """
    attempts = (_parse(sql, attempt) for attempt in ([dialect] if dialect else ["", *sorted(DIALECTS.values())]))
    trees = next(filter(None, attempts), [])
    if not trees:
        return _by_name(sql[:MAX_SQL])
    from sqlglot import exp  # noqa: PLC0415 - only calls with SQL need it

    tables: list[str] = []
    for tree in trees:
        cte_names = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
        for table in tree.find_all(exp.Table):
            parts = [part for part in (table.catalog, table.db, table.name) if part]
            if parts and not (len(parts) == 1 and parts[0].lower() in cte_names):
                tables.append(".".join(parts))
    columns = [column.name for tree in trees for column in tree.find_all(exp.Column) if column.name]
    literals = [str(literal.this) for tree in trees for literal in tree.find_all(exp.Literal)]
    stars = [star for tree in trees for star in tree.find_all(exp.Star) if not isinstance(star.parent, exp.Count)]
    return SqlStatement(_distinct(tables), _distinct(columns), _distinct(literals), reads_all=bool(stars))


def _parse(sql: str, dialect: str) -> list[Any]:
    """Return the syntax trees, or [] if the text can't be parsed."""
    if len(sql) > MAX_SQL or _depth(sql) > MAX_DEPTH:
        return []
    import sqlglot  # noqa: PLC0415 - only calls with SQL need it

    try:
        trees = [tree for tree in parsing.parse(explained(sql, dialect), dialect) if tree is not None]
    except (sqlglot.errors.SqlglotError, RecursionError, ValueError, Invalid):
        return []
    # sqlglot keeps a statement that it does not know as a Command, without its names.
    return [] if any(isinstance(tree, sqlglot.exp.Command) for tree in trees) else trees


def _by_name(sql: str) -> SqlStatement:
    literals = [text.replace("''", "'") for text in STRING.findall(sql)]
    text = COMMENT.sub(" ", STRING.sub(" ", sql))
    ctes = {unquoted(name).lower() for name in CTE.findall(text)}
    tables = []
    for match in TABLE.finditer(text):
        tables.append(unquoted(match[1]))
        end = match.end()
        while following := NEXT_TABLE.match(text, end):
            tables.append(unquoted(following[1]))
            end = following.end()
    tables = [name for name in tables if name.lower() not in ctes]
    tables += [unquoted(name) for name in re.findall(DOTTED, text)]
    return SqlStatement(
        _distinct(tables),
        _distinct(IDENTIFIER.findall(text)),
        _distinct([*literals, *NUMBER.findall(text)]),
        is_parsed=False,
    )


def unquoted(name: str) -> str:
    """Return a dotted name without the quotes and spaces around its parts."""
    return ".".join(part.strip().strip('"`[]') for part in re.findall(rf"{PART}|\w+", name))


def _distinct(values: Iterable[str]) -> list[str]:
    return [value for value in dict.fromkeys(values) if len(value) <= MAX_LITERAL or "." in value][:MAX_NAMES]


def _depth(text: str) -> int:
    deepest = depth = 0
    for character in text:
        depth += BRACKETS.get(character, 0)
        deepest = max(deepest, depth)
    return deepest
