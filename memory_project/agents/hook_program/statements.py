"""Statements in SQL that failed in a session, and later worked with another name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

MAX_STATEMENT = 4_000  # characters of a statement that are read
MAX_LATER = 6  # number of later statements that are compared with a failed one
MAX_FAILED = 30  # failed statements of a session whose repair is looked for
MIN_SIMILARITY = 0.6  # share of the tokens that a statement and its repair have in common
SQL = re.compile(r"\b(?:select|with|insert|update|delete|merge|create)\b.{3,}", re.IGNORECASE | re.DOTALL)
TOKEN = re.compile(r"[A-Za-z_][\w$]*(?:\.[A-Za-z_][\w$]*)*|'[^']*'|\d+|\S")
NAME = re.compile(r"[A-Za-z_][\w$]*(?:\.[A-Za-z_][\w$]*)*")
TABLE = re.compile(r"\b(?:from|join|into|update)\s+([A-Za-z_][\w.$]*)(?:\s+(?:as\s+)?([A-Za-z_]\w*))?", re.IGNORECASE)
# Errors about something other than the statement: the same statement works later, or a person repairs it elsewhere.
TRANSIENT = re.compile(
    r"refused|time[ds]? ?out|timeout|permission|denied|unreachable|authenticat|deadlock|cancel", re.I
)
KEYWORDS = frozenset(
    {
        "on", "using", "where", "group", "order", "left", "right", "inner", "outer", "cross", "full", "join", "natural",
        "limit", "having", "union", "set", "as", "by",
    }
)  # fmt: skip


@dataclass(frozen=True)
class SessionStatement:
    sql: str
    error: str  # "" if it worked


@dataclass(frozen=True)
class Repair:
    """A name that does not exist, the one that does, and the table, if the name is that of a column."""

    wrong: str
    right: str
    table: str
    statement: str
    error: str


def sql_in(tool_input: Mapping[str, object] | str | None) -> str:
    """Return the SQL of a call, whose input is a statement, a command line, or an object that holds one of these."""
    texts = [tool_input] if isinstance(tool_input, str) else list((tool_input or {}).values())
    for text in texts:
        if isinstance(text, str) and (found := SQL.search(text[:MAX_STATEMENT])):
            return found.group().rstrip(" \"';)\n")
    return ""


def repairs(statements: Sequence[SessionStatement]) -> list[Repair]:
    """Return the repaired names, each once, in the order in which they were repaired."""
    found: dict[tuple[str, str], Repair] = {}
    failures = [n for n, each in enumerate(statements) if each.error and not TRANSIENT.search(each.error)]
    for position in failures[:MAX_FAILED]:
        failed = statements[position]
        for later in statements[position + 1 : position + 1 + MAX_LATER]:
            if not later.error and (repair := _repair(failed, later)):
                found.setdefault((repair.wrong, repair.right), repair)
                break
    return list(found.values())


def _repair(failed: SessionStatement, later: SessionStatement) -> Repair | None:
    """Return the name that was replaced, if the error complains of it and hardly anything else has changed."""
    before = TOKEN.findall(failed.sql)
    after = TOKEN.findall(later.sql)
    if not any(_is_named(name, failed.error) for name in set(before) - set(after) if NAME.fullmatch(name)):
        return None
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < MIN_SIMILARITY:
        return None
    pairs = set[tuple[str, str]]()
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "replace" and b - a == d - c:
            pairs.update(zip(before[a:b], after[c:d], strict=True))
    names = [(old, new) for old, new in pairs if NAME.fullmatch(old) and NAME.fullmatch(new)]
    complained = [(old, new) for old, new in names if _is_named(old, failed.error)]
    if len(complained) != 1:
        return None
    old, new = complained[0]
    tables = _tables(failed.sql)
    if old in tables.values():
        return None if is_typo(old, new) else Repair(old, new, "", later.sql, failed.error)
    prefix = old.rpartition(".")[0]
    wrong = old.rpartition(".")[2]
    right = new.rpartition(".")[2]
    table = tables.get(prefix, "") or (next(iter(tables.values())) if len(set(tables.values())) == 1 else "")
    return None if is_typo(wrong, right) else Repair(wrong, right, table, later.sql, failed.error)


def _is_named(name: str, error: str) -> bool:
    last = name.rpartition(".")[2]
    return bool(re.search(rf"(?<!\w){re.escape(last)}(?!\w)", error, re.IGNORECASE))


def _tables(sql: str) -> dict[str, str]:
    """Return the tables of a statement by their aliases, or by their names if they have none."""
    tables = {}
    for table, alias in TABLE.findall(sql):
        tables[table if not alias or alias.lower() in KEYWORDS else alias] = table
    return tables


def is_typo(wrong: str, right: str) -> bool:
    """Return whether two names differ in one letter: a slip of the agent, and no fact about the table.

    A missing underscore is no slip: the agent took the name to be written otherwise.
    """
    wrong = wrong.lower()
    right = right.lower()
    if wrong == right:
        return True
    if wrong.replace("_", "") == right.replace("_", "") or abs(len(wrong) - len(right)) > 1:
        return False
    start = next((i for i, (a, b) in enumerate(zip(wrong, right, strict=False)) if a != b), min(len(wrong), len(right)))
    return (
        wrong[start + 1 :] == right[start + 1 :]
        or wrong[start + 1 :] == right[start:]
        or wrong[start:] == right[start + 1 :]
    )
