"""The first stage of recall: one SQL statement that finds candidates in a scope and scores them.

    score = w_semantic · cosine + w_lexical · coverage + bonus for named and related entities + speaker and date cues

Coverage is the idf of the question's words that a record contains, divided by the idf of all the question's words. The
cues count only for conversation memories. Candidates come from three searches, called arms: the 50 records with the
highest cosine, the 50 with the highest coverage, and the 50 newest about the named and related entities.

A small scope is scanned, so word frequencies in it are exact. In a large scope the arms use the indexes: the rarest
words find rows, and the frequencies of the other words are estimated from these rows. In both cases frequencies are
counted only among rows that the reader may see, so that no score reveals a word of a hidden memory. If all words of the
question are frequent in a large scope, their idf comes from a table that reveals no such word either
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

from foundation.database import prepared_statements
from foundation.database.queryset_sql import Condition
from foundation.database.replica import connection_for_reading
from foundation.lazy_numpy import np
from memories.retrieval import term_statistics, vector_index
from memories.retrieval.question_features import Cues

SEMANTIC_WEIGHT = 0.6  # of the cosine in the score of recall
LEXICAL_WEIGHT = 0.3  # of the share of the query's words that a memory contains
# Weights for choosing the seeds of context ranking, beside those of the cues (question_features.py)
SEED_COSINE = 0.6
SEED_WORDS = 0.6

CANDIDATES = 50  # maximum number of candidates from each arm
# Number of nearest passages read for each candidate. It is above 1, because several of them may be of one long text.
PASSAGES_PER_CANDIDATE = 4
ROWS_KEY, ROWS_KEPT_S = "memory-rows", 60  # prefix of the cache keys of row counts, and seconds until they expire
ROWS_AT_EXACT_SCAN = 45_000  # number of memories above which larger scopes than RECALL_EXACT_SCAN_ROWS are scanned
ENTITY_BONUS = 1.0  # bonus of a memory about a named entity; for a related entity it is divided by 1 + its distance


@dataclass(frozen=True)
class RecallQuestion:
    """A recall query, prepared for the arms."""

    vector: Sequence[float] | None = None
    terms: Sequence[term_statistics.Term] = ()
    distances: dict[str, int] = field(default_factory=dict)  # URN of a named or related entity → distance in steps
    cues: Cues = field(default_factory=Cues)
    turns: bool = False  # the scope may have short-term turns, which are not in the vector index, so it is scanned


# scope: the rows to search, with a bit mask of the question's words in each row. Of a small scope these are all rows.
#   Of a large scope they are the rows that the index finds by the rarest words.
# masks: the number of rows with each combination of words.
# counts: the number of all rows, and the number of rows with each word.
# weights: the idf of each word.
# shares: the idf of each word, divided by the sum of all.
# coverages: the sum of the shares of the words in each combination.
SCOPE = """
    scope AS MATERIALIZED (SELECT id, {mask} AS mask FROM memory_records WHERE {scope}{found}),
    masks AS MATERIALIZED (SELECT mask, count(*) AS rows FROM scope GROUP BY mask),
    counts AS (SELECT {total}::float8 AS total, {counts} FROM masks),
    weights AS (SELECT {idfs} FROM counts),
    shares AS MATERIALIZED (SELECT *, {shares} FROM weights),
    coverages AS MATERIALIZED (SELECT mask, rows, {coverage} AS coverage FROM masks, shares),"""
MASK = "CASE WHEN search @@ %(words)s::tsquery THEN {bits} ELSE 0::bigint END"
COVERAGE = "CASE WHEN mask & {bit} <> 0 THEN s{n} ELSE 0 END"
COUNT = "coalesce(sum(rows) FILTER (WHERE mask & {bit} <> 0), 0)"
# The limit matters if all words of a question are frequent: then many rows match, and any 2,000 of them are enough.
FOUND = " AND search @@ %(selective)s::tsquery LIMIT 2000"
FOUND_TOTAL = "greatest(%(rows)s, sum(rows))"
# The frequency of a word that was not used to find rows, estimated by its share of the rows found (Laplace's rule of
# succession).
FOUND_COUNT = "%(rows)s * (" + COUNT + " + 1) / (coalesce(sum(rows), 0) + 2)"
GIVEN_IDF = "%(idf{n})s::float8 AS i{n}"
IDF = "ln(1 + (total - n{n} + 0.5) / (n{n} + 0.5)) AS i{n}"  # the formula of term_statistics.idf
# The arms: SEMANTIC_… by nearest vectors, LEXICAL by coverage, NEAR by named and related entities.
SEMANTIC_SCANNED = """
    SELECT record_id FROM (
        SELECT p.record_id, p.vector <=> (SELECT vector FROM question) AS distance
        FROM memory_passages p JOIN scope ON scope.id = p.record_id ORDER BY distance LIMIT %(passages)s
    ) nearest GROUP BY record_id ORDER BY min(distance) LIMIT %(candidates)s"""
# Takes combinations of words in order of falling coverage until they have enough rows, so that few rows are sorted.
LEXICAL = """
    SELECT id FROM (
        SELECT id FROM scope JOIN coverages USING (mask) WHERE mask = ANY(ARRAY(
            SELECT mask FROM (
                SELECT mask, coalesce(sum(rows) OVER (
                    ORDER BY coverage DESC RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE GROUP
                ), 0) AS rows_before FROM coverages WHERE mask <> 0
            ) best WHERE rows_before < %(candidates)s
        )) ORDER BY coverage DESC, id LIMIT %(candidates)s
    ) covering"""
# With a join in place of EXISTS, or without OFFSET 0, the planner would read the whole scope and then its vectors. It
# takes the scope for a few rows, because the policies of row-level security repeat the scope's conditions.
SEMANTIC_INDEXED = """
    SELECT record_id FROM (
        SELECT p.record_id, {distance} AS distance
        FROM memory_passages p WHERE NOT p.short_term AND EXISTS (
            SELECT FROM memory_records WHERE memory_records.id = p.record_id AND {scope} OFFSET 0
        ) ORDER BY distance LIMIT %(passages)s
    ) nearest GROUP BY record_id ORDER BY min(distance) LIMIT %(candidates)s"""
NEAR = """
    SELECT id FROM (
        SELECT id FROM memory_records
        WHERE {scope} AND (entity_urns && %(urns)s::varchar[] OR detected_urns && %(urns)s::varchar[])
        ORDER BY created_at DESC, id LIMIT %(candidates)s
    ) near"""
COSINE = """(SELECT 1 - min(p.vector <=> (SELECT vector FROM question)) FROM memory_passages p
    WHERE p.record_id = memory_records.id)"""
# Scores the candidates of all arms. Their ids are an array, because with a join the planner would scan the whole table.
RANKED = """
    WITH question AS MATERIALIZED (SELECT %(vector)s::vector AS vector),{tables}
    candidates AS MATERIALIZED (SELECT DISTINCT record_id AS id FROM ({arms}) arms(record_id)),
    scored AS MATERIALIZED (
        SELECT id, created_at, conversation_id, thread_position,
               {cosine} AS cosine, {bonus} AS bonus{cues}{mask}
        FROM memory_records WHERE id = ANY(ARRAY(SELECT id FROM candidates))
    )
    SELECT scored.id, scored.created_at, conversation_id, thread_position, cosine, {coverage} AS coverage, bonus,
           %(w_semantic)s * coalesce(cosine, 0) + %(w_lexical)s * {coverage} + bonus + {cue} AS score, {idf_list}
    FROM scored {joins} ORDER BY score DESC, created_at DESC, scored.id LIMIT %(limit)s"""
ROWS_UP_TO = "SELECT count(*) FROM (SELECT FROM memory_records WHERE {scope} LIMIT %(limit)s) AS counted"
BONUS = """CASE WHEN entity_urns && %(urns{0})s::varchar[] OR detected_urns && %(urns{0})s::varchar[]
    THEN %(bonus{0})s ELSE """


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
    plain_score: float  # the score by the formula of Candidate.score

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


def candidates(scope: Condition, question: RecallQuestion, limit: int) -> tuple[list[RankedCandidate], list[float]]:
    """Return the `limit` best rows of a scope for this question, and the idf of each of the question's terms.

    Without rows, the list of idfs is empty too.
    """
    is_scanned = scans(scope, question)
    sql, values = statement(scope, question, limit, exact=is_scanned)
    # With the indexes, the best plan depends on the words.
    rows = prepared_statements.rows(sql, values, once=not is_scanned, binary=True)
    return [_candidate(row) for row in rows], list(rows[0][8]) if rows else []


def is_small(scope: Condition) -> bool:
    """Return whether to scan the whole scope, which misses nothing, instead of using the indexes.

    The limit is the size of a scope for which a scan takes about as long as a search of the vector index (measured with
    bench/recall_speed.py). The time of a scan is proportional to the rows of the scope. The time of an index search is
    proportional to the rows of the table divided by those of the scope, because it passes over the rows outside of the
    scope. So the limit grows with the square root of the rows of the table.
    """
    rows = _estimated_rows()
    limit = int(settings.RECALL_EXACT_SCAN_ROWS * max(1.0, math.sqrt(rows / ROWS_AT_EXACT_SCAN)))
    return rows < limit // 2 or _rows_up_to(scope, limit) <= limit


def _rows_up_to(scope: Condition, limit: int) -> int:
    """Return the number of rows of the scope, or `limit` + 1 if there are more. Counts are cached for ROWS_KEPT_S."""
    key = f"{ROWS_KEY}-{limit}-{hashlib.blake2b(repr(scope).encode(), digest_size=16).hexdigest()}"
    count = caches["process"].get(key)
    if count is None:
        ((count,),) = prepared_statements.rows(ROWS_UP_TO.format(scope=scope.sql), {**scope.params, "limit": limit + 1})
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


def scans(scope: Condition, question: RecallQuestion) -> bool:
    """Return whether the whole scope is scanned for this question, instead of using the indexes."""
    searches_text = question.terms or question.vector is not None
    return not searches_text or question.turns or is_small(scope)


def statement(scope: Condition, question: RecallQuestion, limit: int, *, exact: bool) -> tuple[str, dict[str, Any]]:
    """Return the SQL statement for this scope and its parameters. With `exact`, it scans the whole scope.

    Values are always parameters. Only SQL fragments from the code, and the scope's condition as compiled by the ORM,
    are formatted into the statement.
    """
    parts = _parts(question, scope.sql, exact=exact)
    bonus, bonuses = _bonus_sql(question.distances)
    arms = [*parts.arms, *([NEAR.format(scope=scope.sql)] if question.distances else [])]
    cue, cue_columns, cues = question.cues.sql()
    sql = RANKED.format(
        tables=parts.tables,
        arms=" UNION ALL ".join(f"({arm})" for arm in arms) or "SELECT NULL::uuid WHERE false",
        cosine=COSINE if question.vector is not None else "NULL::float8",
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
        "w_lexical": SEED_WORDS,
        "limit": limit,
    }
    return sql, {**scope.params, **parts.params, **bonuses, **cues, **values}


@dataclass(frozen=True)
class _Parts:
    """The fragments of the statement that depend on the question's words and on whether the scope is scanned."""

    arms: list[str]
    coverage: str = "0::float8"
    mask: str = ""  # SQL of a column of the candidates with the bit mask of the question's words in each
    idf_list: str = "ARRAY[]::float8[]"
    tables: str = ""
    joins: str = ""
    params: dict[str, Any] = field(default_factory=dict)


def _parts(question: RecallQuestion, scope_sql: str, *, exact: bool) -> _Parts:
    distance = vector_index.distance("p.vector", "(SELECT vector FROM question)")
    semantic = SEMANTIC_SCANNED if exact else SEMANTIC_INDEXED.format(scope=scope_sql, distance=distance)
    arms = [semantic] if question.vector is not None else []
    terms, numbers = question.terms, range(len(question.terms))
    if not terms:
        scope = f" scope AS MATERIALIZED (SELECT id FROM memory_records WHERE {scope_sql}),"  # noqa: S608
        return _Parts(arms, tables=scope if exact else "")
    selection = None if exact else term_statistics.selective(terms)
    bits = " + ".join(f"CASE WHEN search @@ %(term{n})s::tsquery THEN {1 << n} ELSE 0 END" for n in numbers)
    mask = MASK.format(bits=bits)
    coverage = f"({' + '.join(COVERAGE.format(bit=1 << n, n=n) for n in numbers)})::float8"
    is_whole = [selection is None or n < selection.terms for n in numbers]  # whether all rows with the word are found
    tables = SCOPE.format(
        scope=scope_sql,
        mask=f"({bits})::bigint" if selection else mask,
        found=FOUND if selection else "",
        total=FOUND_TOTAL if selection else "sum(rows)",
        counts=", ".join(f"{(COUNT if is_whole[n] else FOUND_COUNT).format(bit=1 << n)} AS n{n}" for n in numbers),
        idfs=", ".join((GIVEN_IDF if selection and not selection.terms else IDF).format(n=n) for n in numbers),
        shares=", ".join(f"i{n} / ({' + '.join(f'i{m}' for m in numbers)}) AS s{n}" for n in numbers),
        coverage=coverage,
    )
    params: dict[str, Any] = {"words": term_statistics.any_of(terms)} | {f"term{n}": terms[n].tsquery for n in numbers}
    if selection:
        params |= {"selective": selection.tsquery, "rows": _estimated_rows()} | {
            f"idf{n}": terms[n].idf for n in numbers
        }
    return _Parts(
        arms=[*arms, LEXICAL],
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
    cases = ""
    for distance in sorted(set(distances.values())):
        cases += BONUS.format(distance)
        params[f"urns{distance}"] = [urn for urn, steps in distances.items() if steps == distance]
        params[f"bonus{distance}"] = ENTITY_BONUS / (1 + distance)
    return f"({cases}0{' END' * len(set(distances.values()))})::float8", params
