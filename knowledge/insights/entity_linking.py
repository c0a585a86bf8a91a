"""Detection of catalog entities that texts mention: by URN, by table name in SQL, or by dotted name.

All names of a call are resolved in one query.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from knowledge.models import CatalogEntity

MAX_SQL = 20_000  # maximum number of characters of a statement that is parsed
MAX_DEPTH = 100  # maximum depth of nested brackets in a statement that is parsed
MAX_NAMES = 40
MAX_URNS = 20
MAX_TEXT = 200_000  # maximum number of characters of the arguments, or of the response, that are searched
MAX_WALK = 2_000  # maximum number of values in the arguments, or in the response, that are visited
URN = re.compile(r"urn:li:[A-Za-z]+:(?:\([^()\s\"']{1,480}\)|[^\s()\"',\]}]{1,480})")
DOTTED = re.compile(r"(?<![\w./@:])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*){1,3}(?![\w.(/@])")
STATEMENT = re.compile(r"\s*(?:with|select|from|explain|describe|insert|update|delete|merge|create)\b", re.IGNORECASE)
BRACKETS = {"(": 1, ")": -1}


def entities_of_call(arguments: Mapping[str, Any], answer: Any, *, platform: str = "") -> list[str]:
    """Return at most MAX_URNS URNs of entities that the arguments or the answer of a call mention.

    Entities mentioned in the arguments come first. SQL that can't be parsed is ignored.
    """
    argument_texts, answer_texts = list(_texts(arguments)), list(_texts(answer))
    statements = [text for text in argument_texts if STATEMENT.match(text)]
    urns = list(_urns(argument_texts))
    names = [name for statement in statements for name in tables_of(statement)]
    names += [name for text in argument_texts if text not in statements for name in DOTTED.findall(text)]
    answer_names = [name for text in answer_texts for name in DOTTED.findall(text)]
    resolved = resolve([*names, *answer_names], platform=platform)
    urns += [resolved[name] for name in names if name in resolved]
    urns += _urns(answer_texts)
    urns += [resolved[name] for name in answer_names if name in resolved]
    return list(dict.fromkeys(urns))[:MAX_URNS]


def entities_of_text(text: str) -> list[str]:
    return entities_of_call({"text": text}, None)


def tables_of(sql: str, dialect: str = "") -> list[str]:
    """Return the names of the tables in a SQL statement, as they are written there.

    Aliases and common table expressions are left out. Returns [] if the text is too long, too deeply nested or not SQL.
    """
    if len(sql) > MAX_SQL or _depth(sql) > MAX_DEPTH:
        return []
    import sqlglot  # noqa: PLC0415 - only calls with SQL need it
    from sqlglot import exp  # noqa: PLC0415 - the same

    try:
        trees = [tree for tree in sqlglot.parse(sql, read=dialect or None) if tree is not None]
    except (sqlglot.errors.SqlglotError, RecursionError, ValueError):
        return []
    names: list[str] = []
    for tree in trees:
        cte_names = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
        for table in tree.find_all(exp.Table):
            parts = [part for part in (table.catalog, table.db, table.name) if part]
            if parts and not (len(parts) == 1 and parts[0].lower() in cte_names):
                names.append(".".join(parts))
    return list(dict.fromkeys(names))[:MAX_NAMES]


def resolve(names: Iterable[str], *, platform: str = "") -> dict[str, str]:
    """Return the URNs of the data sets that these table names refer to, by name.

    The qualified name of the data set must equal the name or end with it. Of a name of three or more parts, the last
    two are enough, because the query engine may use another name for the database. If several data sets match, the one
    on `platform` is meant. A name is left out if no single data set remains.
    """
    wanted_names = list(dict.fromkeys(names))[:MAX_NAMES]
    parts_of = {name: tuple(name.lower().split(".")) for name in wanted_names}
    tails = {parts[-1] for parts in parts_of.values()}
    if not tails:
        return {}
    rows = CatalogEntity.objects.filter(removed=False, entity_type="dataset", tail__in=tails)
    candidates: dict[str, list[tuple[tuple[str, ...], str, str]]] = {}
    for urn, name, tail, kind in rows.values_list("urn", "qualified_name", "tail", "platform")[:1_000]:
        candidates.setdefault(tail, []).append((tuple(name.lower().split(".")), urn, kind))
    resolved = {}
    for name, parts in parts_of.items():
        if urn := _only_match(parts, candidates.get(parts[-1], []), platform):
            resolved[name] = urn
    return resolved


def _only_match(parts: tuple[str, ...], candidates: list[tuple[tuple[str, ...], str, str]], platform: str) -> str:
    exact = [row for row in candidates if row[0][-len(parts) :] == parts]
    same_length = [row for row in exact if len(row[0]) == len(parts)]
    loose = [row for row in candidates if len(parts) > 2 and row[0][-2:] == parts[-2:]]
    for matches in (same_length, exact, loose):
        of_platform = [row for row in matches if row[2] == platform] if platform else []
        for rows in (of_platform, matches):
            if len(rows) == 1:
                return rows[0][1]
    return ""


def _depth(text: str) -> int:
    deepest = depth = 0
    for character in text:
        depth += BRACKETS.get(character, 0)
        deepest = max(deepest, depth)
    return deepest


def _urns(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        for match in URN.findall(text):
            yield match.rstrip(".,;:!?") if not match.endswith(")") else match


def _texts(value: Any) -> Iterator[str]:
    """Yield the strings inside a value, in order and within the limits. Keys are not searched."""
    pending, seen_count, room = [value], 0, MAX_TEXT
    while pending and seen_count < MAX_WALK and room > 0:
        item = pending.pop()
        seen_count += 1
        if isinstance(item, str):
            yield item[:room]
            room -= len(item)
        elif isinstance(item, Mapping):
            if not item.get("unsure"):  # an unsure search result may have nothing to do with the call
                pending.extend(reversed(list(item.values())))
        elif isinstance(item, list | tuple):
            pending.extend(reversed(item))
