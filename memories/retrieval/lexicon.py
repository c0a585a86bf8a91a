"""The lexical side of ranking: a query's terms, how rare each is, and which of them find candidates.

PostgreSQL's ts_rank knows no document frequency, and counting one per query costs 30 ms at 100,000 records;
so the frequencies are kept in a table of their own (derived, refreshed by a task). Scores are made of counts that
must not tell whether a word stands in somebody's secrets, or in another persona's: without private texts, without
what fewer than OWNERS_LEAST people wrote, and rounded to powers of two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from memories.models.fields import search_vector_sql

MAX_TERMS = 32  # a longer query is cut to its rarest terms
CANDIDATE_ROWS = 5_000  # about how many rows the lexical arm may touch in a large scope
OWNERS_LEAST = 3  # of a lexeme that counts
TOTAL = ""  # the row of memory_lexemes that holds the number of documents: no lexeme is empty

QUERY_TERMS = """
    SELECT term.lexeme, coalesce(known.documents, 0), coalesce(known.shared, 0), total.shared
    FROM unnest(tsvector_to_array({vector})) AS term(lexeme)
    LEFT JOIN memory_lexemes AS known ON known.lexeme = term.lexeme
    LEFT JOIN memory_lexemes AS total ON total.lexeme = ''
"""

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
    documents: int
    idf: float

    @property
    def tsquery(self) -> str:
        escaped = self.lexeme.replace("\\", "\\\\").replace("'", "''")
        return f"'{escaped}'"


def idf(documents: int, total: int) -> float:
    """Inverse document frequency of BM25: ln(1 + (N - n + ½) / (n + ½)), after Robertson & Zaragoza 2009."""
    count = min(documents, total)
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


def query_terms(query: str) -> list[Term]:
    """The query's distinct lexemes, rarest first; a term the table does not know yet counts as the rarest."""
    with connection.cursor() as cursor:
        # The text-search configuration is a checked constant; the query itself is a parameter, twice.
        cursor.execute(QUERY_TERMS.format(vector=search_vector_sql("%s::text")), [query, query])
        rows = cursor.fetchall()
    terms = [Term(lexeme, documents, idf(shared, total or shared)) for lexeme, documents, shared, total in rows]
    return sorted(terms, key=lambda term: (term.documents, term.lexeme))[:MAX_TERMS]


def weigh(terms: Sequence[Term], condition: str, params: dict[str, Any], limit: int) -> tuple[bool, list[Term]]:
    """Whether the scope has at most `limit` rows, and then the terms by their frequency in it: exact, always
    fresh, and without a trace of texts that the caller may not read. A larger scope keeps the table's counts."""
    counts = "".join(f", count(*) FILTER (WHERE search @@ %(counted{n})s::tsquery)" for n in range(len(terms)))
    counted = {f"counted{n}": term.tsquery for n, term in enumerate(terms)}
    with connection.cursor() as cursor:
        # The condition is the ORM's, with named parameters; all else is this function's own text.
        cursor.execute(
            f"SELECT count(*){counts} FROM (SELECT search FROM memory_records WHERE {condition} LIMIT %(most)s) rows",  # noqa: S608
            {**params, **counted, "most": limit + 1},
        )
        rows, *documents = cursor.fetchone()
    if rows > limit:
        return False, list(terms)
    exact = [Term(t.lexeme, n, idf(n, rows)) for t, n in zip(terms, documents, strict=True)]
    return True, sorted(exact, key=lambda term: (term.documents, term.lexeme))


def coverage_sql(terms: Sequence[Term]) -> tuple[str, dict[str, Any]]:
    """SQL with its parameters for the idf-weighted share of the terms that a record contains: 0 to 1."""
    total = sum(term.idf for term in terms)
    if not total:
        return "0::float8", {}
    cases: list[str] = []
    params: dict[str, Any] = {}
    for position, term in enumerate(terms):
        cases.append(f"CASE WHEN search @@ %(term{position})s::tsquery THEN %(share{position})s ELSE 0 END")
        params |= {f"term{position}": term.tsquery, f"share{position}": term.idf / total}
    return f"({' + '.join(cases)})::float8", params


def any_of(terms: Sequence[Term]) -> str:
    """A tsquery that matches a record with any of the terms."""
    return " | ".join(term.tsquery for term in terms)


def selective(terms: Sequence[Term]) -> str:
    """A tsquery that finds candidates in a large scope and touches about CANDIDATE_ROWS rows at most.

    The rarest terms, alternatively, while their rows fit; where even the rarest is too common, it together
    with the next ones (frequencies multiplied, as if independent).
    """
    if not terms:
        return ""
    total = max(2 * terms[-1].documents, 1)  # about how many there are: a term is rarely in more than half
    first = terms[0]
    if first.documents <= CANDIDATE_ROWS:
        rarest, rows = [first], first.documents
        for term in terms[1:]:
            rows += term.documents
            if rows > CANDIDATE_ROWS:
                break
            rarest.append(term)
        return any_of(rarest)
    rarest, expected = [first], float(first.documents)
    for term in terms[1:]:
        if expected <= CANDIDATE_ROWS:
            break
        rarest.append(term)
        expected *= term.documents / total
    return " & ".join(term.tsquery for term in rarest)


def refresh() -> int:
    """Counts all lexemes again; returns how many there are. Readers see the old table until this commits."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('memory_lexemes'))")
        cursor.execute("DELETE FROM memory_lexemes")
        cursor.execute(REFRESH, [OWNERS_LEAST])
        return int(cursor.rowcount)
