"""The lexical side of ranking: a query's terms, how rare each is, and which of them find candidates.

PostgreSQL's ts_rank knows no document frequency, and counting one per query costs 30 ms at 100,000 records;
so the frequencies are kept in a table of their own (derived, refreshed by a task), which tells which words find rows.
What they weigh is counted among the reader's rows (ranking), except where all of them are common: then it comes from
this table too, from counts that must not tell whether a word stands in somebody's secrets, or in another persona's:
without private texts, without what fewer than MIN_OWNERS people wrote, and rounded to powers of two.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from django.db import connection, transaction

from memories.database import prepared_statements
from memories.models.fields import search_vector_sql, text_search_config
from memories.retrieval.language import configuration_of, language_of

MIN_TYPO = 5  # letters of a word in which a typo is looked for
MAX_TYPOS = 4  # such words of one question
MAX_LIKES = 5
LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzäöüßéèàçñ")
IDENTIFIER = re.compile(r"[^\W_]+(?:[._][^\W_]+)+")
MAX_IDENTIFIERS = 5
PHRASES = """
    SELECT name, phraseto_tsquery(config, words)::text, tsvector_to_array(to_tsvector(config, words))
    FROM unnest(%s::text[]) AS name, regexp_replace(name, '[._]+', ' ', 'g') AS words,
    (SELECT %s::regconfig AS config) AS installation"""
KNOWN_LEXEMES = "SELECT lexeme, documents FROM memory_lexemes WHERE lexeme = ANY(%s)"
MAX_TERMS = 32  # a longer query is cut to its rarest terms
CANDIDATE_ROWS = 1_000  # about how many rows the lexical arm may touch in a large scope
MIN_OWNERS = 3  # of a lexeme that counts
TOTAL = ""  # the row of memory_lexemes that holds the number of documents: no lexeme is empty

QUERY_TERMS = """
    SELECT term.lexeme, coalesce(known.documents, 0) + {documents}, coalesce(known.shared, 0), total.shared, likes
    FROM (SELECT %s::text AS words) AS query, unnest({vector}) AS term
    CROSS JOIN LATERAL (SELECT {likes} AS likes) AS alike
    LEFT JOIN memory_lexemes AS known ON known.lexeme = term.lexeme
    LEFT JOIN memory_lexemes AS total ON total.lexeme = ''
"""
# What stands in the same place of the query by the installation's configuration, and as it is written.
SAME_PLACE = """ARRAY(
    SELECT DISTINCT other.lexeme FROM (
        SELECT (unnest({installation})).* UNION ALL SELECT (unnest({simple})).*
    ) AS other WHERE other.positions && term.positions AND other.lexeme <> term.lexeme)"""
OF_LIKES = "coalesce((SELECT sum(documents) FROM memory_lexemes WHERE lexeme = ANY(likes)), 0)::int"

REFRESH = """
    INSERT INTO memory_lexemes (lexeme, documents, shared)
    SELECT everywhere.word, everywhere.ndoc, coalesce(shared.ndoc, 0)
    FROM ts_stat($$SELECT search FROM memory_records WHERE status <> 'archived'$$) everywhere
    LEFT JOIN (
        SELECT lexeme AS word, (2 ^ round(log(2.0, count(*)::numeric)))::int AS ndoc
        FROM memory_records, unnest(search) WHERE status <> 'archived' AND visibility <> 'private'
        GROUP BY lexeme HAVING count(DISTINCT created_by) >= %s
    ) shared USING (word)
    UNION ALL
    SELECT '', count(*), count(*) FILTER (WHERE visibility <> 'private')
    FROM memory_records WHERE status <> 'archived'
"""


@dataclass(frozen=True)
class Term:
    lexeme: str
    documents: int  # with it, or with one of its likes
    idf: float
    likes: tuple[str, ...] = ()  # lexemes one letter away, of one that is unknown
    phrase: str = ""  # the tsquery of an identifier as a whole

    @property
    def tsquery(self) -> str:
        if self.phrase:
            return f"({self.phrase})"
        quoted = " | ".join(_quoted(lexeme) for lexeme in (self.lexeme, *self.likes))
        return f"({quoted})" if self.likes else quoted


def _quoted(lexeme: str) -> str:
    escaped = lexeme.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def idf(documents: int, total: int) -> float:
    """Inverse document frequency of BM25: ln(1 + (N - n + ½) / (n + ½)), after Robertson & Zaragoza 2009."""
    count = min(documents, total)
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


def query_terms(query: str) -> list[Term]:
    """The query's distinct lexemes, rarest first; a term the table does not know yet counts as the rarest."""
    rows = prepared_statements.rows(_query_terms_sql(language_of(query)), [query])
    terms = [
        Term(lexeme, documents, idf(shared, total or shared), tuple(sorted(likes)))
        for lexeme, documents, shared, total, likes in rows
    ]
    terms = sorted(terms, key=lambda term: (term.documents, term.lexeme))[:MAX_TERMS]
    if rows and rows[0][3] is not None:  # otherwise nothing was counted yet, and every word is unknown
        terms = _with_likes(terms)
    return sorted([*_identifiers(query, terms), *terms], key=lambda term: term.documents)[:MAX_TERMS]


def _query_terms_sql(language: str) -> str:
    """The words of a query by the rules of its language, beside them those of the installation: a memory may be in
    either, and a stop word of the query's language is none of its words."""
    name = configuration_of(language)
    likes, documents = "ARRAY[]::text[]", "0"
    if name != text_search_config():
        simple = search_vector_sql("words", "simple")
        likes, documents = SAME_PLACE.format(installation=search_vector_sql("words"), simple=simple), OF_LIKES
    return QUERY_TERMS.format(vector=search_vector_sql("words", name), likes=likes, documents=documents)


def _with_likes(terms: Sequence[Term]) -> list[Term]:
    """A word that nobody used is looked for one letter away too: it may be a typo of a rare name. The lexemes of all
    are asked, and their rows only in the reader's scope, so that nobody learns of a word that they may not read."""
    unknown = [term for term in terms if not term.documents and not term.likes and len(term.lexeme) >= MIN_TYPO]
    if not unknown:
        return list(terms)
    edits = {term.lexeme: one_edit_away(term.lexeme) for term in unknown[:MAX_TYPOS]}
    documents = dict(prepared_statements.rows(KNOWN_LEXEMES, [sorted(set().union(*edits.values()))]))
    likes = {lexeme: tuple(sorted(edits[lexeme] & documents.keys()))[:MAX_LIKES] for lexeme in edits}
    return [
        replace(term, likes=likes[term.lexeme], documents=sum(documents[like] for like in likes[term.lexeme]))
        if term.lexeme in likes
        else term
        for term in terms
    ]


def one_edit_away(word: str) -> set[str]:
    """What a letter less, more, another or two swapped make of it (Damerau 1964)."""
    parts = [(word[:n], word[n:]) for n in range(len(word) + 1)]
    letters = set(word) | LETTERS
    edits = {a + b[1:] for a, b in parts if b} | {a + b[1] + b[0] + b[2:] for a, b in parts if len(b) > 1}
    edits |= {a + c + b[1:] for a, b in parts if b for c in letters} | {a + c + b for a, b in parts for c in letters}
    return edits - {word}


def _identifiers(query: str, terms: Sequence[Term]) -> list[Term]:
    """`sales.orders` and `customer_id` as wholes beside their parts: who holds the whole is worth more."""
    names = list(dict.fromkeys(IDENTIFIER.findall(query)))[:MAX_IDENTIFIERS]
    if not names:
        return []
    wholes = []
    for name, phrase, lexemes in prepared_statements.rows(PHRASES, [names, text_search_config()]):
        if "<" in phrase:
            parts = [term for term in terms if term.lexeme in lexemes] or terms
            documents = min((term.documents for term in parts), default=0)  # it is in no more rows than each part
            rarest = max((term.idf for term in parts), default=1.0)
            wholes.append(Term(name, documents, rarest, phrase=phrase))
    return wholes


WORD_LEXEMES = """
    SELECT word, lexeme FROM unnest(%s::text[]) AS word, unnest(tsvector_to_array({vector})) AS lexeme"""


def idf_of_words(words: Sequence[str], idf_of: Mapping[str, float]) -> dict[str, float]:
    """The idf of each word of a query, of those whose lexemes have one."""
    name = configuration_of(language_of(" ".join(words)))
    rows = prepared_statements.rows(WORD_LEXEMES.format(vector=search_vector_sql("word", name)), [sorted(set(words))])
    return {word: idf_of[lexeme] for word, lexeme in rows if lexeme in idf_of}


def any_of(terms: Sequence[Term]) -> str:
    """A tsquery that matches a record with any of the terms."""
    return " | ".join(term.tsquery for term in terms)


@dataclass(frozen=True)
class Selection:
    """What finds candidates in a large scope: every row with any of the first `terms` of a question, or, where that is
    0, rows that hold several common ones at once."""

    tsquery: str
    terms: int


def selective(terms: Sequence[Term]) -> Selection:
    """A selection that touches about CANDIDATE_ROWS rows at most.

    The rarest terms, alternatively, while their rows fit; where even the rarest is too common, it together
    with the next ones (frequencies multiplied, as if independent).
    """
    total = max(2 * terms[-1].documents, 1)  # about how many there are: a term is rarely in more than half
    first = terms[0]
    if first.documents <= CANDIDATE_ROWS:
        rows = list(accumulate(term.documents for term in terms))
        fitting = max(sum(count <= CANDIDATE_ROWS for count in rows), 1)
        return Selection(any_of(terms[:fitting]), fitting)
    rarest, expected = [first], float(first.documents)
    for term in terms[1:]:
        if expected <= CANDIDATE_ROWS:
            break
        rarest.append(term)
        expected *= term.documents / total
    return Selection(" & ".join(term.tsquery for term in rarest), 0)


def refresh() -> int:
    """Counts all lexemes again; returns how many there are. Readers see the old table until this commits."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('memory_lexemes'))")
        cursor.execute("DELETE FROM memory_lexemes")
        cursor.execute(REFRESH, [MIN_OWNERS])
        return int(cursor.rowcount)
