"""The statement that makes candidates and scores them: one round trip.

score = w_s · cosine + w_l · idf coverage (+ a bonus for named and near entities, + what the question says of speaker
and date, where the scope holds conversations). Candidates are the top 50 by cosine, the top 50 by coverage of
OR-matched words, and the newest 50 about the named entities. In a small scope one scan finds the words of every row,
and their frequencies are exact; in a large one the arms use the indexes, and frequencies come from memory_lexemes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.cache import cache
from django.db import connection

from memories.database.statements import condition
from memories.models.record import MemoryRecordQuerySet
from memories.retrieval import lexicon
from memories.retrieval.cues import Cues

CANDIDATES = 50  # per arm
PASSAGES_PER_CANDIDATE = 4  # nearest passages looked at for each record wanted: a long text has several
ROWS_KEY, ROWS_KEPT_S = "memory-rows", 60
ENTITY_BONUS = 1.0  # at distance 0, falling as 1 / (1 + distance): a named entity outweighs a fair match of words


@dataclass(frozen=True)
class Question:
    """What the arms work with. `cues` are looked at where the scope holds conversations; a scope with `turns` is
    scanned, since the vector index is without them."""

    vector: Sequence[float] | None = None
    terms: Sequence[lexicon.Term] = ()
    distances: dict[str, int] = field(default_factory=dict)
    cues: Cues = field(default_factory=Cues)
    turns: bool = False


# A small scope: one scan tells which words each row holds, as bits, and how many rows hold each.
SCOPE_SCANNED = """
    scope AS MATERIALIZED (
        SELECT id, {mask} AS mask FROM memory_records WHERE {scope}
    ),
    masks AS MATERIALIZED (SELECT mask, count(*) AS rows FROM scope GROUP BY mask),
    counts AS (SELECT sum(rows)::float8 AS total, {counts} FROM masks),
    weights AS (SELECT {idfs} FROM counts),
    shares AS MATERIALIZED (SELECT *, {shares} FROM weights),
    coverages AS MATERIALIZED (SELECT mask, rows, ({coverage})::float8 AS coverage FROM masks, shares),"""
MASK = "CASE WHEN search @@ %(words)s::tsquery THEN {bits} ELSE 0::bigint END"
SCANNED_COVERAGE = "CASE WHEN mask & {bit} <> 0 THEN s{n} ELSE 0 END"
IDF = "ln(1 + (total - n{n} + 0.5) / (n{n} + 0.5)) AS i{n}"  # BM25's; lexicon.idf
# One arm each: the nearest vectors, the best covered words, the newest about the named entities.
SEMANTIC_SCANNED = """
    SELECT record_id FROM (
        SELECT p.record_id, (p.vector <=> (SELECT vector FROM question)) + 0 AS distance
        FROM memory_passages p JOIN scope ON scope.id = p.record_id ORDER BY distance LIMIT %(passages)s
    ) nearest GROUP BY record_id ORDER BY min(distance) LIMIT %(candidates)s"""
# Of the best sets of words alone, as many as have enough rows: most rows of a scope are never sorted.
LEXICAL_SCANNED = """
    SELECT id FROM (
        SELECT id FROM scope JOIN coverages USING (mask) WHERE mask = ANY(ARRAY(
            SELECT mask FROM (
                SELECT mask, coalesce(sum(rows) OVER (
                    ORDER BY coverage DESC RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE GROUP
                ), 0) AS rows_before FROM coverages WHERE mask <> 0
            ) best WHERE rows_before < %(candidates)s
        )) ORDER BY coverage DESC, id LIMIT %(candidates)s
    ) covering"""
SEMANTIC_INDEXED = """
    SELECT record_id FROM (
        SELECT p.record_id, p.vector <=> (SELECT vector FROM question) AS distance
        FROM memory_passages p JOIN memory_records ON memory_records.id = p.record_id
        WHERE NOT p.short_term AND {scope} ORDER BY distance LIMIT %(passages)s
    ) nearest GROUP BY record_id ORDER BY min(distance) LIMIT %(candidates)s"""
LEXICAL_INDEXED = """
    SELECT id FROM (
        SELECT id FROM memory_records WHERE {scope} AND search @@ %(selective)s::tsquery
        ORDER BY {coverage} DESC, id LIMIT %(candidates)s
    ) covering"""
NEAR = """
    SELECT id FROM (
        SELECT id FROM memory_records WHERE {scope} AND entity_urns && %(urns)s::varchar[]
        ORDER BY created_at DESC, id LIMIT %(candidates)s
    ) near"""
COSINE = """(SELECT 1 - min(p.vector <=> (SELECT vector FROM question)) FROM memory_passages p
    WHERE p.record_id = memory_records.id)"""
# All candidates by one formula. Their ids as an array: a join makes the planner scan the table.
RANKED = """
    WITH question AS MATERIALIZED (SELECT %(vector)s::vector AS vector),{tables}
    candidates AS MATERIALIZED (SELECT DISTINCT record_id AS id FROM ({arms}) arms(record_id)),
    scored AS MATERIALIZED (
        SELECT id, created_at, conversation_id, thread_position,
               {cosine} AS cosine, {bonus} AS bonus{cues}{row_coverage}
        FROM memory_records WHERE id = ANY(ARRAY(SELECT id FROM candidates))
    )
    SELECT scored.id, scored.created_at, conversation_id, thread_position, cosine, {coverage} AS coverage, bonus,
           %(w_semantic)s * coalesce(cosine, 0) + %(w_lexical)s * {coverage} + bonus + {cue} AS score, {idf_list}
    FROM scored {joins} ORDER BY score DESC, created_at DESC, scored.id LIMIT %(limit)s"""
BONUS = "CASE WHEN entity_urns && %(urns{0})s::varchar[] THEN %(bonus{0})s ELSE "


@dataclass(frozen=True)
class Candidate:
    """A row of the first stage, in its order; `score` is the plain formula's, in which words count less than among the
    seeds of the second."""

    id: UUID
    created_at: datetime
    conversation_id: str
    position: int | None
    cosine: float | None
    coverage: float
    bonus: float

    @property
    def score(self) -> float:
        return plain(self.cosine, self.coverage) + self.bonus


@dataclass(frozen=True)
class Ranked:
    """A row in its final place; `plain` is the first stage's score."""

    id: UUID
    created_at: datetime
    score: float
    cosine: float | None
    coverage: float
    bonus: float
    plain: float

    @classmethod
    def of(cls, row: Candidate) -> Ranked:
        return cls(row.id, row.created_at, row.score, row.cosine, row.coverage, row.bonus, row.score)


def order(row: Ranked) -> tuple[float, float, UUID]:
    """Best first; ties break by age and id, so that an answer can be reproduced."""
    return -row.score, -row.created_at.timestamp(), row.id


def plain(cosine: float | None, coverage: float) -> float:
    return float(settings.RECALL_SEMANTIC_WEIGHT * (cosine or 0.0) + settings.RECALL_LEXICAL_WEIGHT * coverage)


def candidates(scope: MemoryRecordQuerySet, question: Question, limit: int) -> tuple[list[Candidate], list[float]]:
    """The scope's best rows for this question, and the idf of each of its terms."""
    with connection.cursor() as cursor:
        cursor.execute(*statement(scope, question, limit))
        rows = cursor.fetchall()
    return [Candidate(*row[:7]) for row in rows], list(rows[0][8]) if rows else []


def is_small(scope: MemoryRecordQuerySet) -> bool:
    """Whether a scan is quicker and surer than the indexes (measured in bench/recall_speed.py)."""
    limit = settings.RECALL_EXACT_SCAN_ROWS
    return _rows_in_all() <= limit // 2 or scope.order_by()[: limit + 1].count() <= limit


def _rows_in_all() -> float:
    """About how many memories there are, as the planner knows; asked once in a while."""
    estimate = cache.get(ROWS_KEY)
    if estimate is None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT reltuples FROM pg_class WHERE oid = 'memory_records'::regclass")
            estimate = float(cursor.fetchone()[0])
        cache.set(ROWS_KEY, estimate, ROWS_KEPT_S)
    return float(estimate)


def statement(scope: MemoryRecordQuerySet, question: Question, limit: int) -> tuple[str, dict[str, Any]]:
    """The SQL for this scope. Values are parameters; what is formatted in are this module's fragments and the
    scope's own condition, compiled by the ORM."""
    scope_sql, params = condition(scope)
    looks = question.terms or question.vector is not None
    exact = not looks or question.turns or is_small(scope)
    parts = _scanned(question, scope_sql) if exact else _indexed(question, scope_sql)
    bonus, bonuses = _bonus_sql(question.distances)
    arms = [*parts.arms, *([NEAR.format(scope=scope_sql)] if question.distances else [])]
    cue, cue_columns, cues = question.cues.sql()
    sql = RANKED.format(
        tables=parts.tables,
        arms=" UNION ALL ".join(f"({arm})" for arm in arms) or "SELECT NULL::uuid WHERE false",
        cosine=COSINE if question.vector is not None else "NULL::float8",
        coverage=parts.coverage,
        row_coverage=parts.row_coverage,
        bonus=bonus,
        cue=cue,
        cues=cue_columns,
        idf_list=parts.idf_list,
        joins=parts.joins,
    )
    values = {
        "vector": str(list(question.vector)) if question.vector is not None else None,
        "urns": list(question.distances),
        "candidates": CANDIDATES,
        "passages": CANDIDATES * PASSAGES_PER_CANDIDATE,
        "w_semantic": settings.RECALL_CONTEXT["seed_cosine"],
        "w_lexical": settings.RECALL_CONTEXT["seed_words"],
        "limit": limit,
    }
    return sql, {**params, **parts.params, **bonuses, **cues, **values}


@dataclass(frozen=True)
class _Parts:
    """What differs between a scan and the indexes."""

    arms: list[str]
    coverage: str = "0::float8"
    row_coverage: str = ""  # a column of the candidates, by their words
    idf_list: str = "ARRAY[]::float8[]"
    tables: str = ""
    joins: str = ""
    params: dict[str, Any] = field(default_factory=dict)


def _scanned(question: Question, scope_sql: str) -> _Parts:
    numbers = range(len(question.terms))
    coverage = " + ".join(SCANNED_COVERAGE.format(bit=1 << n, n=n) for n in numbers)
    arms = [SEMANTIC_SCANNED] if question.vector is not None else []
    if not numbers:
        tables = f" scope AS MATERIALIZED (SELECT id FROM memory_records WHERE {scope_sql}),"  # noqa: S608
        return _Parts(arms, tables=tables)
    bits = " + ".join(f"CASE WHEN search @@ %(term{n})s::tsquery THEN {1 << n} ELSE 0 END" for n in numbers)
    mask = MASK.format(bits=bits)
    tables = SCOPE_SCANNED.format(
        scope=scope_sql,
        mask=mask,
        counts=", ".join(f"coalesce(sum(rows) FILTER (WHERE mask & {1 << n} <> 0), 0) AS n{n}" for n in numbers),
        coverage=coverage,
        idfs=", ".join(IDF.format(n=n) for n in numbers),
        shares=", ".join(f"i{n} / ({' + '.join(f'i{m}' for m in numbers)}) AS s{n}" for n in numbers),
    )
    return _Parts(
        arms=[*arms, LEXICAL_SCANNED],
        coverage="coverages.coverage",
        row_coverage=f", {mask} AS mask",
        idf_list=f"ARRAY[{', '.join(f'i{n}' for n in numbers)}]::float8[]",
        tables=tables,
        joins="JOIN coverages USING (mask) CROSS JOIN shares",
        params={"words": lexicon.any_of(question.terms)} | {f"term{n}": question.terms[n].tsquery for n in numbers},
    )


def _indexed(question: Question, scope_sql: str) -> _Parts:
    coverage, params = lexicon.coverage_sql(question.terms)
    arms = [SEMANTIC_INDEXED.format(scope=scope_sql)] if question.vector is not None else []
    if question.terms:
        arms.append(LEXICAL_INDEXED.format(scope=scope_sql, coverage=coverage))
    return _Parts(
        arms=arms,
        row_coverage=f", {coverage} AS coverage",
        coverage="scored.coverage",
        idf_list="%(idfs)s::float8[]",
        params={**params, "selective": lexicon.selective(question.terms), "idfs": [t.idf for t in question.terms]},
    )


def _bonus_sql(distances: dict[str, int]) -> tuple[str, dict[str, Any]]:
    """SQL for the bonus of the nearest of the record's entities."""
    params: dict[str, Any] = {}
    cases = ""
    for distance in sorted(set(distances.values())):
        cases += BONUS.format(distance)
        params[f"urns{distance}"] = [urn for urn, far in distances.items() if far == distance]
        params[f"bonus{distance}"] = ENTITY_BONUS / (1 + distance)
    return f"({cases}0{' END' * len(set(distances.values()))})::float8", params
