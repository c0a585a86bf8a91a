"""SQL inside command lines, such as `psql -c "SELECT …"`, heredocs and calls in Python."""

from __future__ import annotations

import re
from collections.abc import Iterator

from knowledge.entities.sql_statement import MAX_SQL, is_statement

MAX_STATEMENTS = 5
# Programs and calls that take SQL. Without one of them, `git commit -m "Update the table of …"` would count as SQL.
CLIENT = re.compile(
    r"\b(?:psql|pgcli|usql|bq|dbt|duckdb|snowsql|snow|mysql|mycli|mariadb|sqlite3|trino|presto|clickhouse(?:-client)?"
    r"|spark-sql|beeline|databricks|athena|redshift-data|sqlcmd|sqlplus|impala-shell|vsql|cockroach|datafusion-cli"
    r"|sqlmesh|dolt|execute_?sql|read_sql(?:_query)?)\b|\.(?:sql|execute|query)\s*\(|\"(?:sql|query|statement)\"\s*:",
    re.IGNORECASE,
)
HEREDOC = re.compile(r"<<-?[ \t]*+(['\"]?)(\w{1,40})\1[^\n]*+\n")
# The rest of a text after its opening mark, with the quotation marks of shells, Python and JSON.
TRIPLE_QUOTED = re.compile(r'((?:[^"]|"(?!""))*+)"""')
DOUBLE_QUOTED = re.compile(r'((?:[^"\\]|\\.)*+)"', re.DOTALL)
SINGLE_QUOTED = re.compile(r"((?:[^'\\]|\\.)*+)'", re.DOTALL)
REST = {'"""': TRIPLE_QUOTED.match, '"': DOUBLE_QUOTED.match, "'": SINGLE_QUOTED.match}
QUOTE = re.compile(r'"""|"|\'')
# Arguments of which a program has joined the texts without quotation marks: psql -c SELECT …
UNQUOTED = re.compile(
    r"(?:^|\s)-[\w-]{1,30}[=\s]\s{0,5}(?=(?:select|with|from|describe|show|insert|update|delete)\s)", re.I
)
ESCAPED = re.compile(r"\\(.)", re.DOTALL)
# dbt's references: {{ ref('orders') }} and {{ source('sales', 'orders') }}
REFERENCE = re.compile(
    r"\{\{\s*+(?:ref|source)\(\s*+['\"]([\w.]+)['\"]\s*+(?:,\s*+['\"]([\w.]+)['\"]\s*+)?+[^{}]{0,80}\)\s*+\}\}"
)


def statements_in(text: str) -> list[str]:
    """Return the SQL statements of a command line, or the text itself if it is SQL. At most MAX_STATEMENTS."""
    text = text[:MAX_SQL]
    if is_statement(text):
        return [_without_templates(text)]
    if not CLIENT.search(text):
        return []
    found = (part.strip() for part in _candidates(text))
    return [_without_templates(part) for part in dict.fromkeys(found) if is_statement(part)][:MAX_STATEMENTS]


def _candidates(text: str) -> Iterator[str]:
    heredocs, rest = _heredocs(text)
    for part in (*heredocs, rest):
        yield part
        if unquoted := UNQUOTED.search(part):
            yield part[unquoted.end() :]
        for inner in _quoted(part):
            yield inner
            if not is_statement(inner):  # ssh host "psql -c 'SELECT …'", python -c "con.sql('SELECT …')"
                yield from _quoted(inner)


def _heredocs(text: str) -> tuple[list[str], str]:
    """Return the texts of heredocs, and the rest. One without an end goes on to the end of the text."""
    bodies = []
    rest = []
    position = 0
    while opening := HEREDOC.search(text, position):
        closing = re.compile(rf"^[ \t]*+{re.escape(opening[2])}[ \t]*$", re.MULTILINE).search(text, opening.end())
        bodies.append(text[opening.end() : closing.start() if closing else len(text)])
        rest.append(text[position : opening.start()])
        position = closing.end() if closing else len(text)
    return bodies, "\n".join([*rest, text[position:]])


def _quoted(text: str) -> Iterator[str]:
    position = 0
    unclosed = set()
    while opening := QUOTE.search(text, position):
        mark = opening[0]
        position = opening.end()
        # Where one mark is never closed, no later one of its kind is, and searching again would take quadratic time.
        inner = None if mark in unclosed else REST[mark](text, position)
        if inner is None:
            unclosed.add(mark)
            continue
        position = inner.end()
        yield ESCAPED.sub(_unescaped, inner[1]) if mark == '"' else inner[1]


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


def _without_templates(sql: str) -> str:
    """Replace dbt's references by the names of their tables."""
    return REFERENCE.sub(lambda match: ".".join(filter(None, match.groups())), sql)
