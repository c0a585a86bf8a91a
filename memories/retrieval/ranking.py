"""The first stage of recall: one SQL statement that finds candidates among the searched rows and scores them.

    score = w_semantic · cosine + w_lexical · coverage + bonus for named and related entities + speaker and date cues

Coverage is the idf of the question's words that a record contains, divided by the idf of all the question's words. The
cues count only for conversation memories. Candidates come from three searches, called arms: the 50 records with the
highest cosine, the 50 with the highest coverage, and the 50 newest about the named and related entities.

Few rows are scanned, so word frequencies in them are exact. Among many rows, the arms use the indexes: the rarest words
find rows, and the frequencies of the other words are estimated from these rows. In both cases frequencies are counted
only among rows that the reader may see, so that no score reveals a word of a hidden memory. If all words of the
question are frequent among many rows, their idf comes from a table that reveals no such word either
(term_statistics.py).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.cache import caches

from foundation import embedding
from foundation.database import prepared_statements, sql_files
from foundation.database.queryset_sql import Condition
from foundation.database.replica import connection_for_reading
from foundation.lazy_numpy import np
from memories.retrieval import term_statistics, vector_index
from memories.retrieval.question_features import Cues

SQL = sql_files.statements(__file__)
SEMANTIC_WEIGHT = 0.6  # of the cosine in the score of recall
LEXICAL_WEIGHT = 0.3  # of the share of the query's words that a memory contains
# Weights for choosing the seeds of context ranking, beside those of the cues (question_features.py)
SEED_COSINE = 0.6
SEED_WORDS = 0.6

CANDIDATES = 50  # maximum number of candidates from each arm
# Number of nearest passages read for each candidate. It is above 1, because several of them may be of one long text.
PASSAGES_PER_CANDIDATE = 4
ROWS_KEY, ROWS_KEPT_S = "memory-rows", 60  # prefix of the cache keys of row counts, and seconds until they expire
ROWS_AT_EXACT_SCAN = 45_000  # number of memories above which more rows than RECALL_EXACT_SCAN_ROWS are scanned
# Expected number of rows with the words of a question up to which they are read before the other conditions. Above,
# PostgreSQL chooses, because a small part of many rows may be readable.
FEW_ROWS = 2 * term_statistics.CANDIDATE_ROWS
ENTITY_BONUS = 1.0  # bonus of a memory about a named entity; for a related entity it is divided by 1 + its distance


@dataclass(frozen=True)
class RecallQuestion:
    """A recall query, prepared for the arms."""

    vector: Sequence[float] | None = None
    model: str = ""  # that has computed the vector; "" compares it with those of any model
    terms: Sequence[term_statistics.Term] = ()
    distances: dict[str, int] = field(default_factory=dict)  # URN of a named or related entity → distance in steps
    cues: Cues = field(default_factory=Cues)
    turns: bool = False  # short-term turns are searched, too; they are not in the vector index, so the rows are scanned
    by_words: bool = False  # only rows with rare words of the question are searched, and nothing is scanned


@dataclass(frozen=True)
class RankedCandidate:
    """A memory found in the first stage.

    The SQL statement scores and orders rows with the weights `SEED_…`, to choose seeds for the second stage. The field
    `score` differs from that: it is computed without cues, with SEMANTIC_WEIGHT and LEXICAL_WEIGHT, so that words count
    less.
    """

    id: UUID
    created_at: datetime
    conversation_id: str
    position: int | None
    cosine: float | None
    coverage: float
    bonus: float
    score: float


@dataclass(frozen=True)
class Ranked:
    id: UUID
    created_at: datetime
    score: float
    cosine: float | None
    coverage: float
    bonus: float
    plain_score: float  # the score by the formula of RankedCandidate.score

    @classmethod
    def of(cls, row: RankedCandidate) -> Ranked:
        return cls(row.id, row.created_at, row.score, row.cosine, row.coverage, row.bonus, row.score)


def order(row: Ranked) -> tuple[float, float, UUID]:
    """Return a sort key: the highest score first, then the newest, then the lowest id, so that results are stable."""
    return -row.score, -row.created_at.timestamp(), row.id


def plain_score(cosine: float | None, coverage: float) -> float:
    return SEMANTIC_WEIGHT * (cosine or 0.0) + LEXICAL_WEIGHT * coverage


def _candidate(row: tuple[Any, ...]) -> RankedCandidate:
    pk, created_at, conversation_id, position, cosine, coverage, bonus = row[:7]
    score = plain_score(cosine, coverage) + bonus
    return RankedCandidate(pk, created_at, conversation_id, position, cosine, coverage, bonus, score)


def candidates(searched: Condition, question: RecallQuestion, limit: int) -> tuple[list[RankedCandidate], list[float]]:
    """Return the `limit` best of the searched rows for this question, and the idf of each of the question's terms.

    Without rows, the list of idfs is empty too.
    """
    is_scanned = scans(searched, question)
    sql, values = statement(searched, question, limit, exact=is_scanned)
    # With the indexes, the best plan depends on the words.
    rows = prepared_statements.rows(sql, values, once=not is_scanned, binary=True)
    return [_candidate(row) for row in rows], list(rows[0][8]) if rows else []


def is_small(searched: Condition) -> bool:
    """Return whether to scan all searched rows, which misses nothing, instead of using the indexes.

    The limit is the number of searched rows for which a scan takes about as long as a search of the vector index
    (measured with bench/recall_speed.py). The time of a scan is proportional to the searched rows. The time of an index
    search is proportional to the rows of the table divided by the searched rows, because it passes over the others. So
    the limit grows with the square root of the rows of the table.
    """
    rows = _estimated_rows()
    limit = int(settings.RECALL_EXACT_SCAN_ROWS * max(1.0, math.sqrt(rows / ROWS_AT_EXACT_SCAN)))
    return rows < limit // 2 or has_at_most(limit, searched)


def has_at_most(limit: int, searched: Condition) -> bool:
    return _rows_up_to(searched, limit) <= limit


def _rows_up_to(searched: Condition, limit: int) -> int:
    """Return the number of searched rows, or `limit` + 1 if there are more. Counts are cached for ROWS_KEPT_S."""
    key = f"{ROWS_KEY}-{limit}-{hashlib.blake2b(repr(searched).encode(), digest_size=16).hexdigest()}"
    count = caches["process"].get(key)
    if count is None:
        sql = SQL["rows_up_to"].format(searched=searched.sql)
        ((count,),) = prepared_statements.rows(sql, {**searched.params, "limit": limit + 1})
        caches["process"].set(key, count, ROWS_KEPT_S)
    return int(count)


def _estimated_rows() -> float:
    estimate = caches["process"].get(ROWS_KEY)
    if estimate is None:
        with connection_for_reading().cursor() as cursor:
            # The planner's estimate, because counting all rows takes too long.
            cursor.execute("SELECT reltuples FROM pg_class WHERE oid = 'memory_records'::regclass")
            estimate = float(cursor.fetchone()[0])
        caches["process"].set(ROWS_KEY, estimate, ROWS_KEPT_S)
    return max(float(estimate), 0.0)


def scans(searched: Condition, question: RecallQuestion) -> bool:
    """Return whether all searched rows are scanned for this question, instead of using the indexes."""
    if question.by_words:
        return False
    searches_text = question.terms or question.vector is not None
    return not searches_text or question.turns or is_small(searched)


def statement(searched: Condition, question: RecallQuestion, limit: int, *, exact: bool) -> tuple[str, dict[str, Any]]:
    """Return the SQL statement for these rows and its parameters. With `exact`, it scans all of them.

    Values are always parameters. Only SQL fragments from the code, and the condition of the rows as compiled by the
    ORM, are formatted into the statement.
    """
    parts = _parts(question, searched.sql, exact=exact)
    bonus, bonuses = _bonus_sql(question.distances)
    arms = list(parts.arms)
    if question.distances:
        arms.append(SQL["near"].format(searched=searched.sql))
    cue, cue_columns, cues = question.cues.sql()
    sql = SQL["ranked"].format(
        tables=parts.tables,
        arms=" UNION ALL ".join(f"({arm})" for arm in arms) or "SELECT NULL::uuid WHERE false",
        cosine=SQL["cosine"] if question.vector is not None else "NULL::float8",
        coverage=parts.coverage,
        mask=parts.mask,
        bonus=bonus,
        cue=cue,
        cues=cue_columns,
        idf_list=parts.idf_list,
        joins=parts.joins,
    )
    values = {
        "vector": np.asarray(question.vector, np.float32) if question.vector is not None else None,
        "urns": list(question.distances),
        "candidates": CANDIDATES,
        "passages": CANDIDATES * PASSAGES_PER_CANDIDATE,
        "w_semantic": SEED_COSINE,
        "question_slope": embedding.question_slope(),
        "model": question.model,
        "w_lexical": SEED_WORDS,
        "limit": limit,
    }
    return sql, {**searched.params, **parts.params, **bonuses, **cues, **values}


@dataclass(frozen=True)
class _Parts:
    """The fragments of the statement that depend on the question's words and on whether the rows are scanned."""

    arms: list[str]
    coverage: str = "0::float8"
    mask: str = ""  # SQL of a column of the candidates with the bit mask of the question's words in each
    idf_list: str = "ARRAY[]::float8[]"
    tables: str = ""
    joins: str = ""
    params: dict[str, Any] = field(default_factory=dict)


def _parts(question: RecallQuestion, condition: str, *, exact: bool) -> _Parts:
    distance = vector_index.distance("p.vector", "(SELECT vector FROM question)")
    semantic = (
        SQL["semantic_scanned"] if exact else SQL["semantic_indexed"].format(searched=condition, distance=distance)
    )
    arms = [semantic] if question.vector is not None and not question.by_words else []
    terms = question.terms
    numbers = range(len(question.terms))
    if not terms:
        rows = f" searched AS MATERIALIZED (SELECT id FROM memory_records WHERE {condition}),"  # noqa: S608
        return _Parts(arms, tables=rows if exact else "")
    selection = None if exact else term_statistics.selective(terms)
    bits = " + ".join(f"CASE WHEN search @@ %(term{n})s::tsquery THEN {1 << n} ELSE 0 END" for n in numbers)
    mask = SQL["mask"].format(bits=bits)
    coverages = [SQL["coverage"].format(bit=1 << n, n=n) for n in numbers]
    coverage = f"({' + '.join(coverages)})::float8"
    complete = selection.terms if selection else len(terms)  # all rows with one of the first so many words are found
    counts = [SQL["count" if n < complete else "found_count"].format(bit=1 << n) for n in numbers]
    idf = SQL["given_idf" if selection and not selection.terms else "idf"]
    sum_of_idfs = " + ".join(f"i{n}" for n in numbers)
    tables = SQL["tables"].format(
        searched=condition,
        rows=SQL["rows_with_words"] if selection and selection.rows <= FEW_ROWS else "memory_records",
        mask=f"({bits})::bigint" if selection else mask,
        found=SQL["found"] if selection else "",
        total=SQL["found_total"] if selection else "sum(rows)",
        counts=", ".join(f"{count} AS n{n}" for n, count in enumerate(counts)),
        idfs=", ".join(idf.format(n=n) for n in numbers),
        shares=", ".join(f"i{n} / ({sum_of_idfs}) AS s{n}" for n in numbers),
        coverage=coverage,
    )
    params: dict[str, Any] = {"words": term_statistics.any_of(terms)} | {f"term{n}": terms[n].tsquery for n in numbers}
    if selection:
        params |= {"selective": selection.tsquery, "rows": _estimated_rows()} | {
            f"idf{n}": terms[n].idf for n in numbers
        }
    return _Parts(
        arms=[*arms, SQL["lexical"]],
        coverage=coverage,
        mask=f", {mask} AS mask",
        idf_list=f"ARRAY[{', '.join(f'i{n}' for n in numbers)}]::float8[]",
        tables=tables,
        joins="CROSS JOIN shares",
        params=params,
    )


def _bonus_sql(distances: dict[str, int]) -> tuple[str, dict[str, Any]]:
    """Return SQL for the bonus of a record, which depends on the least distance of its entities, and its parameters."""
    params: dict[str, Any] = {}
    cases = []
    for distance in sorted(set(distances.values())):
        cases.append(SQL["bonus"].format(distance))
        params[f"urns{distance}"] = [urn for urn, steps in distances.items() if steps == distance]
        params[f"bonus{distance}"] = ENTITY_BONUS / (1 + distance)
    return f"({' '.join(cases)} 0{' END' * len(cases)})::float8", params
