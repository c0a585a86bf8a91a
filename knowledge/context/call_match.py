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
from dataclasses import dataclass, field
from functools import cached_property

from django.conf import settings

from foundation import embedding
from foundation.database import connections, prepared_statements
from knowledge.catalog.entity_view import simple_path
from knowledge.context.candidate_memories import FOR_ENTITY, FOR_MATCH, FOR_NEIGHBOR, FoundMemory
from knowledge.context.column_names import IDENTIFIER, ORDINARY, TOKEN, Name, is_identifier
from knowledge.entities.call_subject import CAMEL, MIN_WORD, STOP_WORDS, WORD, CallSubject, singular
from knowledge.entities.entity_linking import read_entities
from memories.models import MemoryRecord
from memories.rendering import entity_name

MAX_ATTACHED = 5  # memories attached to a response; further ones are listed by id
# Minimum score of memories that no link but only words and meaning connect with a call. With a lower one, more memories
# come along, and more of them are off the subject (bench/statement_context.py).
MIN_MATCH = 3.35

WORDS_ONLY = "the embedding model was not available in time: memories were compared by words only"
USUAL_COSINE = 0.3  # cosine that is assumed if there is no vector
MAX_DESCRIPTION = 200  # maximum number of characters of a data set's description that are compared in meaning
MAX_COLUMNS = 60  # maximum number of columns of the requested data sets that are compared
LOADING_S = 1.0  # seconds to wait for a model of this process that is still loading
# Selects those of some names that are the last parts of data sets' names.
KNOWN_TAILS = """
    SELECT DISTINCT tail FROM catalog_entities
    WHERE NOT removed AND entity_type = 'dataset' AND tail = ANY(%(tails)s)"""

_threads = ThreadPoolExecutor(2, thread_name_prefix="context")


@dataclass(frozen=True)
class Profile:
    """Names and words of a call, for comparison with texts."""

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
    def can_match(self) -> bool:
        return bool(self.tables or self.columns or self.other_columns or self.literals)

    @cached_property
    def names(self) -> dict[str, list[Name]]:
        rows = {
            "tables": self.tables,
            "columns": self.columns,
            "other_columns": self.other_columns,
            "literals": self.literals,
        }
        return {kind: [Name(text) for text in texts] for kind, texts in rows.items()}

    @cached_property
    def all_names(self) -> frozenset[str]:
        """The names of tables and columns in lower case."""
        return frozenset(name.lower() for name in (*self.tables, *self.columns, *self.other_columns))

    @cached_property
    def words_of_tables(self) -> frozenset[str]:
        return frozenset(word for name in self.names["tables"] for word in name.words)


@dataclass(frozen=True)
class Evidence:
    """Names and words that a text shares with a call, as written in the call."""

    tables: list[str] = field(default_factory=list)
    identifiers: list[str] = field(default_factory=list)  # columns of the statement, word for word
    words: list[str] = field(default_factory=list)  # columns of the statement, by their words
    other_identifiers: list[str] = field(default_factory=list)
    other_words: list[str] = field(default_factory=list)
    literals: list[str] = field(default_factory=list)  # of two characters or more
    has_exact_table: bool = False  # a table's name occurs as it is, and not only in the singular or plural
    is_foreign: bool = False  # its identifiers are columns of other tables
    is_linked: bool = False  # to other entities

    def score(self, cosine: float, *, names_other_tables: bool = False) -> float:
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
            - (1.0 if self.tables else 2.0) * names_other_tables
            - 2.0 * self.is_linked
            + 3.5 * cosine
        )

    @property
    def is_loose(self) -> bool:
        """Return whether the text shares only words with the call, and no table and no column by its name."""
        return not (self.tables or self.identifiers or self.other_identifiers)

    @cached_property
    def shared(self) -> list[str]:
        names = (self.tables, self.identifiers, self.literals, self.words, self.other_identifiers, self.other_words)
        return list(dict.fromkeys(name for row in names for name in row))


def profile_of(subject: CallSubject) -> Profile:
    tables = [entity_name(urn).rpartition(".")[2] for urn in subject.requested]
    tables += [name.rpartition(".")[2] for statement in subject.statements for name in statement.tables]
    unread = [urn for urn in subject.requested if urn not in subject.rows]
    known_rows = {**subject.rows, **(read_entities(unread) if unread else {})}
    # Sorted, so that the order of the tables in a statement does not change its meaning.
    rows = sorted((known_rows[urn] for urn in subject.requested if urn in known_rows), key=lambda row: row.name)
    known = [simple_path(path).rpartition(".")[2] for row in rows for path in row.columns.split()]
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
    prose = [] if subject.statements else TOKEN.findall(subject.question)
    return Profile(
        _distinct(tables),
        _distinct(columns),
        _distinct(name for name in (*prose, *known) if name.lower() not in used)[:MAX_COLUMNS],
        _distinct(text for text in literals if _is_distinctive_literal(text)),
        _distinct(row.description[:MAX_DESCRIPTION] for row in rows),
    )


def search_words(subject: CallSubject, profile: Profile) -> dict[str, int]:
    """Return the words of a call that find memories, each with a sum of FOR_ENTITY, FOR_MATCH and FOR_NEIGHBOR."""
    words: dict[str, int] = {}

    def add(texts: Iterable[str], uses: int) -> None:
        for text in texts:
            if text:
                words[text] = words.get(text, 0) | uses

    names = profile.names
    of_statement = [name.query for kind in ("tables", "columns", "literals") for name in names[kind]]
    add(of_statement, FOR_MATCH)
    add((name.query for name in names["other_columns"] if name.is_identifier), FOR_MATCH)
    add(_words_in(subject.question), FOR_ENTITY | FOR_NEIGHBOR)
    add(_words_in(subject.named), FOR_NEIGHBOR)
    if subject.statements:
        add(of_statement, FOR_ENTITY)
    return words


def _words_in(text: str) -> list[str]:
    words = (word.lower() for word in WORD.findall(CAMEL.sub(" ", text)))
    return [word for word in words if len(word) >= MIN_WORD and word not in STOP_WORDS]


def best_matches(found: Sequence[FoundMemory], profile: Profile) -> list[tuple[FoundMemory, list[str]]]:
    """Return the memories that match above MIN_MATCH, best first, with what each shares with the call."""
    compared: list[tuple[FoundMemory, Evidence, float]] = []
    for row in found:
        # None without a vector of the call, and for a memory whose vector is of an earlier model
        cosine = USUAL_COSINE if row.cosine is None else row.cosine
        compared.append((row, evidence_of(row.record, profile), cosine))
    crowds = Counter(frozenset(evidence.shared) for _, evidence, _ in compared)
    likely = [
        (row, evidence, cosine)
        for row, evidence, cosine in compared
        if evidence.score(cosine) >= MIN_MATCH
        and evidence.shared
        # Ordinary words that many memories share with the call point to none of them.
        and not (evidence.is_loose and crowds[frozenset(evidence.shared)] > MAX_ATTACHED)
    ]
    foreign = _other_tables([row.record.content for row, _, _ in likely], profile)
    scored = [
        (evidence.score(cosine, names_other_tables=row.record.content in foreign), row, evidence)
        for row, evidence, cosine in likely
    ]
    scored.sort(key=lambda entry: (-entry[0], entry[1].record.pk))
    return [(row, evidence.shared) for score, row, evidence in scored if score >= MIN_MATCH]


def _other_tables(texts: Sequence[str], profile: Profile) -> set[str]:
    """Return the texts that name tables of the catalog other than those of the profile."""
    tails_of = {text: _possible_tails(text) for text in texts}
    all_tails = set().union(*tails_of.values())
    if not all_tails:
        return set()
    rows = prepared_statements.rows(KNOWN_TAILS, {"tails": list(all_tails)}, public=True)
    others = {tail for (tail,) in rows if not Name(tail).words <= profile.words_of_tables}
    return {text for text, tails in tails_of.items() if tails & others}


def _possible_tails(text: str) -> set[str]:
    """Return the names of tables that one word or two words of a text may be, in the singular and plural."""
    words = [word.lower() for word in TOKEN.findall(text) if len(word) > 2]
    names = [*words, *(f"{first}_{second}" for first, second in itertools.pairwise(words))]
    return {variant for name in names for variant in (name, singular(name), f"{name}s")}


def embed_within(text: str, patience_s: float) -> tuple[list[float] | None, str, str]:
    """Return the embedding of a text and its model, or None and, third, the reason if it is not available.

    A model of this process is waited for only while it is loading. One of another system is waited for `patience_s`
    seconds.
    """
    if not text:
        return None, "", ""
    connections.close_if_pooled()  # don't hold a database connection while waiting
    try:
        if settings.EMBEDDING_PROVIDER != "openai":
            return *embedding.embed_query(text, wait_s=LOADING_S), ""
        future = _threads.submit(embedding.embed_query, text, wait_s=patience_s)
        try:
            return *future.result(timeout=patience_s), ""
        finally:
            future.cancel()
    except (embedding.EmbedderUnavailable, NotYet):
        return None, "", WORDS_ONLY


def evidence_of(record: MemoryRecord, profile: Profile) -> Evidence:
    is_linked = bool(record.entity_urns or record.detected_urns)
    return evidence_in(record.content, profile, is_linked=is_linked)


def evidence_in(text: str, profile: Profile, *, is_linked: bool = False) -> Evidence:
    lowered = text.lower()
    tokens = set(TOKEN.findall(text))
    lower_tokens = set(TOKEN.findall(lowered))
    words = {singular(word.lower()) for word in WORD.findall(CAMEL.sub(" ", text))}
    names = profile.names
    tables = [name for name in names["tables"] if name.words and name.words <= words]
    for name in tables:
        words -= name.words  # `room` is no further evidence beside `rooms`
    words -= ORDINARY
    identifiers, by_words = _columns_in(lowered, lower_tokens, words, names["columns"])
    other_identifiers, other_words = _columns_in(lowered, lower_tokens, words, names["other_columns"])
    named = {name.lower() for name in IDENTIFIER.findall(text)}
    return Evidence(
        [name.text for name in tables],
        identifiers,
        by_words,
        other_identifiers,
        other_words,
        [name.text for name in names["literals"] if name.is_in(text, tokens)],
        has_exact_table=any(
            name.is_in_lower(lowered, lower_tokens) or name.spelled_out.search(lowered) for name in tables
        ),
        is_foreign=bool(profile.other_columns and named and not named & profile.all_names),
        is_linked=is_linked,
    )


def _columns_in(
    lowered: str, lower_tokens: set[str], words: set[str], columns: Sequence[Name]
) -> tuple[list[str], list[str]]:
    """Return the columns that a text names word for word, and those of which it has the words.

    Of columns with the same words, such as `category` and `category_id`, only one is returned.
    """
    exact: list[str] = []
    loose: dict[frozenset[str], str] = {}
    for name in columns:
        if name.is_common:
            continue
        if name.is_identifier and name.is_in_lower(lowered, lower_tokens):
            exact.append(name.text)
        elif name.counts_by_words and name.words <= words:
            loose.setdefault(name.words, name.text)
    return exact, list(loose.values())


def _literal_weight(literal: str) -> float:
    """Return what a literal adds to the score. One that looks like a code or a name is nearly enough on its own."""
    is_code = bool(re.search(r"[^\W\d]", literal) and re.search(r"\d", literal)) and len(literal) > 3
    is_name = literal[:1].isupper() and len(literal) > 4
    if is_code:
        return 2.6
    return 2.4 if is_name else 1.5


def _is_distinctive_literal(literal: str) -> bool:
    """Return whether a literal can point to a memory, which single characters and years can't."""
    if re.fullmatch(r"\d+", literal):
        return len(literal) > 1 and not re.fullmatch(r"(19|20)\d\d|10+", literal)
    return len(literal) > 1 and not re.fullmatch(r"[\d\s:.,TZ+-]+", literal)


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value))
