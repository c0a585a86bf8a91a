"""The subject of a tool call: the entities it mentions, and the words of its question."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache

from analysis import sources
from analysis.sql import execute
from analysis.sql.engines import DIALECTS
from foundation.operations.errors import Invalid
from foundation.people.caller import Caller
from foundation.tools.declaration import Call
from knowledge.catalog.name_resolution import urn_of
from knowledge.entities import entity_linking, sql_statement, stored_entities
from knowledge.entities.entity_linking import CatalogRow
from knowledge.entities.sql_statement import SqlStatement
from memories.rendering import entity_name

MAX_ENTITIES = 10  # maximum number of entities that a call asks about, and of those that only its answer mentions
MAX_QUERY = 1_000  # maximum number of characters of the arguments that are used as the question
MIN_WORD = 3  # minimum number of letters of a word that two texts can share
WORD = re.compile(r"[^\W_]+")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Words that say nothing about a subject. SQL's own are here because a statement that is not parsed contributes them.
STOP_WORDS = frozenset({
    "about", "after", "all", "also", "and", "any", "are", "because", "been", "before", "but", "can", "cast", "count",
    "desc", "does", "for", "from", "group", "had", "has", "have", "how", "into", "its", "join", "left", "limit",
    "many", "max", "min", "more", "most", "much", "not", "null", "now", "only", "order", "over", "per", "select",
    "since", "should", "some", "sum", "than", "that", "the", "their", "them", "then", "there", "these", "they",
    "this", "until", "was", "were", "what", "when", "where", "which", "who", "why", "will", "with", "you", "your",
    "table", "tables", "column", "columns", "row", "rows", "value", "values",
})  # fmt: skip
# Arguments that choose how a call works, rather than what it asks about.
SETTINGS = frozenset({
    "source", "model", "action", "command", "direction", "analysis_id", "field", "order_by", "store", "format",
    "cursor",
})  # fmt: skip
QUERY = "query_sql"
ENTITY_ARGUMENTS = ("urn", "entity_urn", "entity_urns")  # arguments that take URNs or names of entities
NOT_PARSED = (
    "the statement could not be parsed: its tables were found by their names, so memories about some may be missing"
)


@dataclass(frozen=True)
class CallSubject:
    requested: list[str] = field(default_factory=list)  # URNs that the call asks about
    answered: list[str] = field(default_factory=list)  # URNs that only the answer mentions
    question: str = ""  # the text arguments, without URNs
    statements: list[SqlStatement] = field(default_factory=list)
    note: str = ""  # why entities may be missing, or ""
    rows: Mapping[str, CatalogRow] = field(default_factory=dict)  # of entities that have been read already, by URN

    @property
    def urns(self) -> list[str]:
        return [*self.requested, *self.answered]

    @property
    def words(self) -> set[str]:
        """Return the words of the call: its arguments and the names of the requested entities.

        Of a statement, these are the names and literals in it.
        """
        return words_of(f"{self.question} {self.named}")

    @property
    def named(self) -> str:
        """Return the last two parts of the names of the requested entities."""
        return " ".join(part for urn in self.requested for part in entity_name(urn).split(".")[-2:])


def subject_of(caller: Caller, call: Call) -> CallSubject:
    """Return what a call is about.

    If its arguments name no entity, the call counts as asking about the entities of its answer. If it is declared where
    entities stand, nothing else is searched for them.
    """
    platform, dialect = _warehouse(caller, call)
    mentions = entity_linking.mentions_of_call(
        call.arguments,
        call.data,
        platform=platform,
        dialect=dialect,
        has_addresses=call.tool not in stored_entities.TOOLS,  # their store declares the names of its entities
    )
    requested = [*_named_entities(call), *mentions.requested]
    answered = mentions.answered
    if call.named is not None:
        requested = entity_linking.urns_named(call.named, platform=call.platform)
        answered = []
    model = call.arguments.get("model")
    if isinstance(model, str) and (source_model := sources.declared().get(model)) and source_model.resource.urn:
        requested.insert(0, source_model.resource.urn)
    stored, listed = stored_entities.of_call(caller, call)
    requested = [*stored, *requested]
    answered = [urn for urn in [*listed, *answered] if urn not in requested]
    if not requested:
        requested = answered
        answered = []
    return CallSubject(
        list(dict.fromkeys(requested))[:MAX_ENTITIES],
        answered[:MAX_ENTITIES],
        _question_of(call, mentions.statements),
        mentions.statements,
        "" if all(statement.is_parsed for statement in mentions.statements) else NOT_PARSED,
        mentions.rows,
    )


def _warehouse(caller: Caller, call: Call) -> tuple[str, str]:
    """Return the platform and the dialect of the tables that a call names, or "" for each that is not known.

    If several entities match a table name, the one on the warehouse's platform is meant.
    """
    name = str(call.data.get("source") or call.arguments.get("source") or "") if call.tool == QUERY else ""
    if call.platform or call.dialect or not name:
        return call.platform, call.dialect
    source = execute.readable_sources(caller).get(name)
    return (source.platform, DIALECTS[source.engine]) if source else ("", "")


def _named_entities(call: Call) -> list[str]:
    """Return the URNs of the entities that the arguments for entities name."""
    values = [call.arguments.get(name) for name in ENTITY_ARGUMENTS]
    names = [name for value in values for name in (value if isinstance(value, list) else [value])]
    urns = []
    for name in names[:MAX_ENTITIES]:
        with suppress(Invalid):
            urns.append(urn_of(name) if isinstance(name, str) and name else "")
    return [urn for urn in urns if urn]


def words_of(text: str) -> set[str]:
    """Return the words of a text that can tell its subject, without plural endings. Identifiers are split."""
    parts = (word.lower() for word in WORD.findall(CAMEL.sub(" ", text)))
    return {singular(part) for part in parts if len(part) >= MIN_WORD and part not in STOP_WORDS}


@lru_cache(maxsize=20_000)
def singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def shared_words(text: str, words: set[str]) -> list[str]:
    """Return the words of a text, as written there, that a call has too. Dotted names in the text don't count."""
    # Two tables of a schema share its name, which says nothing about their subjects.
    prose = entity_linking.DOTTED.sub(" ", entity_linking.URN.sub(" ", text))
    shared = {singular(word.lower()): word for word in reversed(WORD.findall(CAMEL.sub(" ", prose)))}
    return [word for key, word in reversed(shared.items()) if key in words]


def _question_of(call: Call, statements: Sequence[SqlStatement]) -> str:
    texts = [value for name, value in call.arguments.items() if isinstance(value, str) and name not in SETTINGS]
    prose = [text for text in texts if not sql_statement.is_statement(text)]
    names: Iterable[str] = (
        name
        for statement in statements
        for name in (*(table.rpartition(".")[2] for table in statement.tables), *statement.columns, *statement.literals)
    )
    # URNs name the entities and say nothing about the question.
    return " ".join([entity_linking.URN.sub(" ", text) for text in prose] + list(names))[:MAX_QUERY]
