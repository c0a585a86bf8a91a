"""Detection of catalog entities that texts mention: by URN, by address, by table name in SQL, or by dotted name.

Names are resolved in one query for all texts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from foundation.database import prepared_statements
from knowledge.catalog.entity_view import simple_path
from knowledge.entities import addresses, sql_statement
from knowledge.entities.sql_statement import SqlStatement
from knowledge.freshness.baselines import mentioned
from memories.extensions import Mention
from memories.rendering import entity_name

MAX_NAMES = 40  # maximum number of names that are resolved for one call or text
MAX_ANSWER_NAMES = 200  # maximum number of names that are resolved of an answer
MAX_URNS = 20
MAX_TEXT = 200_000  # maximum number of characters of the arguments, or of the response, that are searched
MAX_WALK = 2_000  # maximum number of values in the arguments, or in the response, that are visited
MAX_ROWS = 1_000  # minimum of the maximum number of data sets with these names that are compared
COLUMNS_SHOWN = 20  # maximum number of columns reported with a mention
URN = re.compile(r"urn:li:[A-Za-z]+:(?:\([^()\s\"']{1,480}\)|[^\s()\"',\]}]{1,480})")
DOTTED = re.compile(sql_statement.DOTTED)
DATASET = "urn:li:dataset:"
# `sales.orders.csv` is a file and not a column of sales.orders.
FILE_TYPES = frozenset({"csv", "json", "md", "parquet", "pdf", "py", "sql", "tsv", "txt", "xlsx", "yaml", "yml", "zip"})


# The data sets with one of these last parts of a name, and the entities with one of these URNs.
READ = """
    SELECT urn, qualified_name, name, platform, columns, description FROM catalog_entities
    WHERE NOT removed AND (entity_type = 'dataset' AND tail = ANY(%(tails)s) OR urn = ANY(%(urns)s))
    ORDER BY urn LIMIT %(limit)s"""


@dataclass(frozen=True)
class CatalogRow:
    """An entity of the catalog, as far as texts are compared with it."""

    urn: str
    qualified_name: str
    name: str
    platform: str
    columns: str  # their paths, separated by spaces
    description: str

    @cached_property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.qualified_name.lower().split("."))

    @cached_property
    def simple_paths(self) -> tuple[str, ...]:
        return tuple(simple_path(path) for path in self.columns.split())


@dataclass(frozen=True)
class Mentions:
    """Entities that a call mentions, and the statements in its arguments."""

    requested: list[str] = field(default_factory=list)  # URNs of the arguments
    answered: list[str] = field(default_factory=list)  # URNs that only the answer has
    statements: list[SqlStatement] = field(default_factory=list)
    rows: Mapping[str, CatalogRow] = field(default_factory=dict)  # of those that the catalog has, by URN


def mentions_of_call(
    arguments: Mapping[str, Any], answer: Any, *, platform: str = "", dialect: str = "", has_addresses: bool = True
) -> Mentions:
    """Return at most MAX_URNS URNs of entities that the arguments or the answer of a call mention.

    `dialect` is the dialect of sqlglot in which SQL is parsed. Without `has_addresses`, addresses are not looked up.
    """
    argument_texts = _texts(arguments)
    answer_texts = _texts(answer)
    is_sql = [sql_statement.is_statement(text) for text in argument_texts]
    statements = [
        sql_statement.read_statement(text, dialect) for text, sql in zip(argument_texts, is_sql, strict=True) if sql
    ]
    tables = [name for statement in statements for name in statement.tables]
    names = [n for text, sql in zip(argument_texts, is_sql, strict=True) if not sql for n in names_in(text)]
    # One text is searched in place of a thousand cells. No name contains a line break.
    answer_text = "\n".join(answer_texts)
    answer_names = _names_of_answer(answer_text)
    argument_urns = _urns("\n".join(argument_texts))
    answer_urns = _urns(answer_text)
    rows = _read(_tails([*tables, *names, *answer_names]), [*argument_urns, *answer_urns][:MAX_URNS])
    data_sets = _by_tail(rows)
    requested = [*argument_urns, *(addresses.urns_at(argument_texts) if has_addresses else ())]
    requested += [found.urn for name in tables if (found := _table(name, data_sets, platform))]
    requested += [found.urn for name in names if (found := _table_or_column(name, data_sets, platform))]
    answered = [*answer_urns, *(addresses.urns_at([answer_text]) if has_addresses else ())]
    answered += [found.urn for name in answer_names if (found := _table_or_column(name, data_sets, platform))]
    urns = list(dict.fromkeys([*requested, *answered]))[:MAX_URNS]
    is_requested = set(requested)
    return Mentions(
        [urn for urn in urns if urn in is_requested],
        [urn for urn in urns if urn not in is_requested],
        statements,
        {row.urn: row for row in rows},
    )


def may_mention_more(answer: Any, arguments: Any) -> bool:
    """Return whether an answer may mention entities that the arguments don't, without a look into the catalog."""
    return not _possible_names(answer) <= _possible_names(arguments)


def _possible_names(value: Any) -> set[str]:
    text = "\n".join(_texts(value))
    patterns = (URN, DOTTED, addresses.STORED, addresses.PAGE)
    return {match.group() for pattern in patterns for match in pattern.finditer(text)}


def mentions_in(texts: Sequence[str]) -> list[list[Mention]]:
    """Return for each text the entities that it mentions by URN or dotted name, with the columns that it names.

    A single word is never taken for the name of a table, because `orders` is an ordinary word. A dotted name is the
    name of a data set, an end of it that no other data set has, or one of these with a column.
    """
    names_of = [names_in(text) for text in texts]
    urns_of = [list(dict.fromkeys(_urns(text)))[:MAX_URNS] for text in texts]
    tails = _tails(name for names in names_of for name in names)
    rows = _read(tails, [urn for urns in urns_of for urn in urns])
    data_sets = _by_tail(rows)
    by_urn = {row.urn: row for row in rows}
    mentions = []
    for text, names, urns in zip(texts, names_of, urns_of, strict=True):
        named = [found.urn for name in names if (found := _table_or_column(name, data_sets, ""))]
        found_urns = list(dict.fromkeys([*urns, *named]))[:MAX_URNS]
        mentions.append([_mention(text, urn, by_urn.get(urn)) for urn in found_urns])
    return mentions


def names_in(text: str) -> list[str]:
    """Return the distinct dotted names of a text, without quotes, in order. URNs are left out."""
    return list(dict.fromkeys(sql_statement.unquoted(name) for name in _dotted(text)[:MAX_NAMES]))


def resolve(names: Iterable[str], *, platform: str = "") -> dict[str, str]:
    """Return the URNs of the data sets that these table names refer to, by name.

    The qualified name of the data set must equal the name or end with it. Of a name of three or more parts, the last
    two are enough, because the query engine may use another name for the database. If several data sets match, the one
    on `platform` is meant. A name is left out if no single data set remains.
    """
    wanted = list(dict.fromkeys(names))[:MAX_NAMES]
    data_sets = _by_tail(_read(_tails(wanted), ()))
    return {name: found.urn for name in wanted if (found := _table(name, data_sets, platform))}


def urns_named(names: Sequence[str], *, platform: str = "") -> list[str]:
    """Return the URNs that a list of URNs and names of data sets refers to, in order. Unknown names are left out."""
    found = resolve([name for name in names if not URN.fullmatch(name)], platform=platform)
    urns = [name if URN.fullmatch(name) else found.get(name, "") for name in names]
    return list(dict.fromkeys(filter(None, urns)))[:MAX_URNS]


def read_entities(urns: Sequence[str]) -> dict[str, CatalogRow]:
    """Return what the catalog has of these entities, by URN. Removed ones are left out."""
    return {row.urn: row for row in _read((), urns)}


def _tails(names: Iterable[str]) -> set[str]:
    return {part for name in names for part in name.lower().split(".")[-3:]}


def _read(tails: Collection[str], urns: Collection[str]) -> list[CatalogRow]:
    """Return the data sets with one of these last parts of a name, and the entities with one of these URNs."""
    if not (tails or urns):
        return []
    limit = max(MAX_ROWS, 10 * len(tails)) + len(urns)
    values = {"tails": list(tails), "urns": list(urns), "limit": limit}
    return [CatalogRow(*cells) for cells in prepared_statements.rows(READ, values, public=True)]


def _by_tail(rows: Iterable[CatalogRow]) -> dict[str, list[CatalogRow]]:
    """Group data sets by the last part of their qualified names."""
    data_sets: dict[str, list[CatalogRow]] = {}
    for row in rows:
        if row.urn.startswith(DATASET):
            data_sets.setdefault(row.parts[-1], []).append(row)
    return data_sets


def _table(name: str, data_sets: Mapping[str, list[CatalogRow]], platform: str) -> CatalogRow | None:
    parts = tuple(name.lower().split("."))
    candidates = data_sets.get(parts[-1], [])
    exact = [data_set for data_set in candidates if data_set.parts[-len(parts) :] == parts]
    same_length = [data_set for data_set in exact if len(data_set.parts) == len(parts)]
    loose = [data_set for data_set in candidates if len(parts) > 2 and data_set.parts[-2:] == parts[-2:]]
    for matches in (same_length, exact, loose):
        of_platform = [data_set for data_set in matches if data_set.platform == platform] if platform else []
        for rows in (of_platform, matches):
            if len(rows) == 1:
                return rows[0]
    return None


def _table_or_column(name: str, data_sets: Mapping[str, list[CatalogRow]], platform: str) -> CatalogRow | None:
    """Return the data set that a dotted name names, or the one that has the column it names."""
    if found := _table(name, data_sets, platform):
        return found
    parts = name.split(".")
    for length in (len(parts) - 1, len(parts) - 2):
        table = ".".join(parts[:length])
        column = ".".join(parts[length:]).lower()
        if length > 1 and column not in FILE_TYPES and (found := _table(table, data_sets, platform)):
            return found
        if length == 1:  # `orders.is_test`: the column tells that the word is a table's name
            having = [
                data_set
                for data_set in data_sets.get(table.lower(), [])
                if column in map(str.lower, data_set.simple_paths)
            ]
            of_platform = [data_set for data_set in having if data_set.platform == platform]
            for rows in (of_platform, having):
                if len(rows) == 1:
                    return rows[0]
    return None


def _mention(text: str, urn: str, data_set: CatalogRow | None) -> Mention:
    if data_set is None:  # a URN that the catalog does not have
        return Mention(urn, entity_name(urn))
    # The dotted names of tables are no names of columns: sales.status does not name the column `sales`.
    columns = mentioned(text, [path for path in data_set.simple_paths if path.lower() not in data_set.parts])
    return Mention(urn, data_set.qualified_name or data_set.name, tuple(columns[:COLUMNS_SHOWN]))


def _names_of_answer(text: str) -> list[str]:
    return list(dict.fromkeys(sql_statement.unquoted(name) for name in _dotted(text)[:MAX_ANSWER_NAMES]))


def _dotted(text: str) -> list[str]:
    return list(dict.fromkeys(DOTTED.findall(URN.sub(" ", text))))


def _urns(text: str) -> list[str]:
    return [match.rstrip(".,;:!?") if not match.endswith(")") else match for match in URN.findall(text)]


def _texts(value: Any) -> list[str]:
    """Return the strings inside a value, in order and within the limits. Keys are not searched."""
    pending = [value]
    seen_count = 0
    room = MAX_TEXT
    texts = []
    while pending and seen_count < MAX_WALK and room > 0:
        item = pending.pop()
        seen_count += 1
        if isinstance(item, str):
            texts.append(item[:room])
            room -= len(item)
        elif isinstance(item, Mapping):
            if not item.get("unsure"):  # an unsure search result may have nothing to do with the call
                pending.extend(reversed(list(item.values())))
        elif isinstance(item, list | tuple):
            pending.extend(reversed(item))
    return texts
