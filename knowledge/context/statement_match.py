"""Memories that match a call in words and meaning, although no link leads from its entities to them.

A memory like `rows flagged is_test are training tills` names no table. It is compared with the tables, columns and
literals of the statement, and with the other columns that the catalog lists for its tables. Each match adds to a score,
and so does the similarity in meaning. The weights and the threshold were chosen with bench/statement_context.py.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings

from knowledge.catalog.entity_view import simple_path
from knowledge.context.call_subject import CAMEL, WORD, Subject, singular
from knowledge.models import CatalogEntity
from memories import embedding
from memories.database import connections
from memories.database.queryset_sql import condition
from memories.identity.caller import Caller
from memories.models import MemoryRecord
from memories.models.record import MemoryRecordQuerySet
from memories.rendering import entity_name
from memories.retrieval import term_statistics
from memories.retrieval.ranking import Question, candidates

CANDIDATES = 60  # maximum number of memories that are compared
WORDS_ONLY = "the embedding model was not available in time: memories were compared by words only"
USUAL_COSINE = 0.3  # cosine that is assumed if there is no vector
MAX_DESCRIPTION = 200  # maximum number of characters of a data set's description that are compared in meaning
MAX_COLUMNS = 60  # maximum number of columns of the requested data sets that are compared
# Parts of column names that say nothing about the column's subject.
FILLERS = frozenset({"by", "code", "date", "flag", "has", "id", "is", "key", "kind", "no", "nr", "num", "number"})
# The words of a column such as `closed_at` are ordinary ones: only its whole name counts.
MOMENT = re.compile(r"_(at|on|for|from|to|since|until|date|time)$", re.IGNORECASE)
# Columns that any table may have, as single words.
ORDINARY = frozenset({"date", "day", "hour", "month", "name", "period", "time", "value", "week", "year"})
IDENTIFIER = re.compile(r"(?<![\w.])(?=[a-z]\w*_\w)\w++(?!\()", re.IGNORECASE)
# Identifiers that so many tables have that they point to none.
COMMON = frozenset({
    "created_at", "created_by", "created_on", "deleted_at", "is_active", "is_deleted", "updated_at", "updated_by",
    "updated_on", "valid_from", "valid_to",
})  # fmt: skip


_threads = ThreadPoolExecutor(2, thread_name_prefix="context")


@dataclass(frozen=True)
class Profile:
    """What a call offers for comparison with texts."""

    tables: Sequence[str] = ()  # the last parts of their names
    columns: Sequence[str] = ()  # of the statement, or words of the question
    other_columns: Sequence[str] = ()  # other columns of the requested data sets
    literals: Sequence[str] = ()
    descriptions: Sequence[str] = ()  # of the requested data sets, in the catalog

    @property
    def query(self) -> str:
        """Return the text whose meaning is compared."""
        names = [*self.tables, *(self.columns or self.other_columns)]
        return " ".join([*(name.replace("_", " ") for name in names), *self.literals, *self.descriptions])

    @property
    def words(self) -> str:
        """Return the text whose words find candidates."""
        return " ".join([*self.tables, *self.columns, *self.literals, *filter(is_identifier, self.other_columns)])


@dataclass(frozen=True)
class Evidence:
    """What a text shares with a call, as written in the call."""

    tables: list[str] = field(default_factory=list)
    identifiers: list[str] = field(default_factory=list)  # columns of the statement, word for word
    words: list[str] = field(default_factory=list)  # columns of the statement, by their words
    other_identifiers: list[str] = field(default_factory=list)
    other_words: list[str] = field(default_factory=list)
    literals: list[str] = field(default_factory=list)  # of two characters or more
    has_exact_table: bool = False  # a table's name occurs as it is, and not only in the singular or plural
    is_foreign: bool = False  # its identifiers are columns of other tables
    names_other_tables: bool = False
    is_linked: bool = False  # to other entities

    def score(self, cosine: float) -> float:
        """Return the score by bench/statement_context.py. Two matches of a kind count, further ones don't."""
        exact_names = [name for name in self.tables if "_" in name]
        return (
            (1.5 + 0.5 * self.has_exact_table if self.tables else 0.0)
            + 0.6 * bool(exact_names)
            + 3.6 * min(len(self.identifiers), 2)
            + 2.8 * min(len(self.words), 2)
            + 1.4 * min(len(self.other_identifiers), 2)
            + 0.8 * min(len(self.other_words), 2)
            + sum(sorted(map(_literal_weight, self.literals), reverse=True)[:2])
            - 2.0 * self.is_foreign
            - (1.0 if self.tables else 2.0) * self.names_other_tables
            - 2.0 * self.is_linked
            + 3.5 * cosine
        )

    @property
    def is_loose(self) -> bool:
        """Return whether the text shares only words with the call, and no table and no column by its name."""
        return not (self.tables or self.identifiers or self.other_identifiers)

    @property
    def shared(self) -> list[str]:
        names = (self.tables, self.identifiers, self.literals, self.words, self.other_identifiers, self.other_words)
        return list(dict.fromkeys(name for row in names for name in row))


def profile_of(subject: Subject) -> Profile:
    tables = [entity_name(urn).rpartition(".")[2] for urn in subject.requested]
    tables += [name.rpartition(".")[2] for statement in subject.statements for name in statement.tables]
    rows = list(CatalogEntity.objects.filter(urn__in=subject.requested).values_list("columns", "description"))
    known = [simple_path(path).rpartition(".")[2] for columns, _ in rows for path in columns.split()]
    lower_known = {name.lower() for name in known}
    columns = [
        name
        for statement in subject.statements
        for name in statement.columns
        # The identifiers of a statement that is not parsed include the words of the language.
        if statement.is_parsed or name.lower() in lower_known or is_identifier(name)
    ]
    literals = [text for statement in subject.statements for text in statement.literals]
    used = {name.lower() for name in columns}
    # A single word of a question is less telling than a column of a statement.
    prose = [] if subject.statements else re.findall(r"\w+", subject.question)
    return Profile(
        _distinct(tables),
        _distinct(columns),
        _distinct(name for name in (*prose, *known) if name.lower() not in used)[:MAX_COLUMNS],
        _distinct(text for text in literals if _is_telling(text)),
        _distinct(description[:MAX_DESCRIPTION] for _, description in rows),
    )


def matches(
    caller: Caller, scope: MemoryRecordQuerySet, profile: Profile, vector: Any
) -> list[tuple[MemoryRecord, list[str]]]:
    """Return the scope's memories that match above MEMORY_CONTEXT_MATCH, best first, with what each shares.

    `vector` is the embedding of the profile's query, or None if only words are compared.
    """
    question = Question(vector=vector, terms=term_statistics.query_terms(profile.words, caller))
    rows, _ = candidates(condition(scope), question, CANDIDATES)
    records = scope.defer("search").in_bulk([row.id for row in rows])
    found: list[tuple[float, MemoryRecord, Evidence, float]] = []
    for row in rows:
        if record := records.get(row.id):
            cosine = USUAL_COSINE if vector is None else row.cosine or 0.0
            evidence = evidence_in(record.content, profile)
            evidence = replace(evidence, is_linked=bool(record.entity_urns or record.detected_urns))
            found.append((evidence.score(cosine), record, evidence, cosine))
    crowds = Counter(frozenset(evidence.shared) for _, _, evidence, _ in found)
    found = [
        (score, record, evidence, cosine)
        for score, record, evidence, cosine in found
        if score >= settings.MEMORY_CONTEXT_MATCH
        and evidence.shared
        # Ordinary words that many memories share with the call point to none of them.
        and not (evidence.is_loose and crowds[frozenset(evidence.shared)] > settings.MEMORY_CONTEXT_MOST)
    ]
    foreign = _other_tables([entry[1].content for entry in found], profile)
    scored = [
        (replace(evidence, names_other_tables=record.content in foreign).score(cosine), record, evidence.shared)
        for _, record, evidence, cosine in found
    ]
    scored.sort(key=lambda entry: (-entry[0], entry[1].pk))
    return [(record, shared) for score, record, shared in scored if score >= settings.MEMORY_CONTEXT_MATCH]


def _other_tables(texts: Sequence[str], profile: Profile) -> set[str]:
    """Return the texts that name tables of the catalog other than those of the profile."""
    tails_of = {text: _possible_tails(text) for text in texts}
    all_tails = set().union(*tails_of.values())
    ours = {word for name in profile.tables for word in _content_words(name)}
    rows = CatalogEntity.objects.filter(removed=False, entity_type="dataset", tail__in=all_tails)
    others = {tail for tail in rows.values_list("tail", flat=True).distinct() if not _content_words(tail) <= ours}
    return {text for text, tails in tails_of.items() if tails & others}


def _possible_tails(text: str) -> set[str]:
    """Return the names of tables that one word or two words of a text may be, in the singular and plural."""
    words = [word.lower() for word in re.findall(r"\w+", text) if len(word) > 2]
    names = [*words, *(f"{first}_{second}" for first, second in itertools.pairwise(words))]
    return {variant for name in names for variant in (name, singular(name), f"{name}s")}


def embed_within(text: str, patience_s: float) -> tuple[list[float] | None, str]:
    """Return the embedding of a text, or None and the reason if it is not available within `patience_s` seconds."""
    if not text:
        return None, ""
    connections.close_if_pooled()  # don't hold a database connection while waiting
    patience_s = max(patience_s, 0.0)
    future = _threads.submit(embedding.embed_one, text, wait_s=patience_s)
    try:
        vector, _ = future.result(timeout=patience_s)
    except (embedding.EmbedderUnavailable, NotYet):
        future.cancel()
        return None, WORDS_ONLY
    return vector, ""


def evidence_in(text: str, profile: Profile) -> Evidence:
    lowered, words = text.lower(), {singular(word.lower()) for word in WORD.findall(CAMEL.sub(" ", text))}
    tables = [name for name in profile.tables if _content_words(name) and _content_words(name) <= words]
    words -= {word for name in tables for word in _content_words(name)}  # `room` is no further evidence beside `rooms`
    identifiers, by_words = _columns_in(lowered, words, profile.columns)
    other_identifiers, other_words = _columns_in(lowered, words, profile.other_columns)
    named = {name.lower() for name in IDENTIFIER.findall(text)}
    ours = {name.lower() for name in (*profile.tables, *profile.columns, *profile.other_columns)}
    return Evidence(
        tables,
        identifiers,
        by_words,
        other_identifiers,
        other_words,
        [literal for literal in profile.literals if has_word(text, literal)],
        has_exact_table=any(has_word(lowered, spelling) for name in tables for spelling in _spellings(name)),
        is_foreign=bool(profile.other_columns and named and not named & ours),
    )


def _spellings(name: str) -> tuple[str, str]:
    """Return a table's name as it is and as words: `search_terms` and `search terms`."""
    return name.lower(), CAMEL.sub(" ", name).replace("_", " ").lower()


def is_identifier(name: str) -> bool:
    """Return whether a name is an unmistakable identifier, with an underscore, a digit or inner capitals."""
    return bool(re.search(r"_|\d|[a-z][A-Z]", name)) and len(name) > 2 and name.lower() not in COMMON


def _columns_in(lowered: str, words: set[str], columns: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the columns that a text names word for word, and those of which it has the words.

    Of columns with the same words, such as `category` and `category_id`, only one is returned.
    """
    names = [name for name in columns if name.lower() not in COMMON]
    exact = [name for name in names if is_identifier(name) and has_word(lowered, name.lower())]
    loose: dict[frozenset[str], str] = {}
    for name in names:
        parts = _content_words(name)
        if name not in exact and parts and not MOMENT.search(name) and parts <= words - ORDINARY:
            loose.setdefault(frozenset(parts), name)
    return exact, list(loose.values())


def _content_words(name: str) -> set[str]:
    parts = {word.lower() for word in WORD.findall(CAMEL.sub(" ", name))}
    return {singular(part) for part in parts - FILLERS if len(part) > 2}


def has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def _literal_weight(literal: str) -> float:
    """Return what a literal adds to the score. One that looks like a code or a name is nearly enough on its own."""
    is_code = bool(re.search(r"[^\W\d]", literal) and re.search(r"\d", literal)) and len(literal) > 3
    is_name = literal[:1].isupper() and len(literal) > 4
    return 2.6 if is_code else 2.4 if is_name else 1.5


def _is_telling(literal: str) -> bool:
    """Return whether a literal can point to a memory, which single characters and years can't."""
    if re.fullmatch(r"\d+", literal):
        return len(literal) > 1 and not re.fullmatch(r"(19|20)\d\d|10+", literal)
    return len(literal) > 1 and not re.fullmatch(r"[\d\s:.,TZ+-]+", literal)


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value))
