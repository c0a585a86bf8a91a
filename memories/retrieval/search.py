"""Recall: one round trip makes candidates and ranks them.

score = w_s · cosine + w_l · idf coverage (+ a bonus for named and near entities). Candidates are the top 50
by cosine, the top 50 by coverage of OR-matched words, and the newest 50 about the named entities; all are
scored by the same formula, ties break by id, so an answer can be reproduced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, FloatField, OuterRef, Q, QuerySet, Value
from django.db.models.expressions import Combinable, CombinedExpression
from django.utils import timezone
from pgvector.django import CosineDistance

from memories import embedding
from memories.access import Caller
from memories.contract.errors import DomainError, Invalid
from memories.contract.operations import carries_out, checked
from memories.contract.registry import Registry
from memories.database.statements import condition
from memories.history import states_at
from memories.models import Feedback, MemoryRecord, Status, Tier, Verdict
from memories.models.record import MemoryRecordQuerySet
from memories.operations import DimensionName, RecallMemories
from memories.retrieval import lexicon
from memories.writing.revising import value_of

CANDIDATES = 50  # per arm
ENTITY_BONUS = 1.0  # at distance 0, falling as 1 / (1 + distance): a named entity outweighs a fair match of words
URNS_PER_QUERY = 200  # named entities with their neighbours

LEXICAL_NOTE = "results are lexical-only (exact-term matches), not semantic"
NO_LINEAGE_NOTE = "the lineage can't be read, so only the named entities themselves were looked up"
NO_CATALOG_NOTE = "no catalog is loaded: graph looked up the named entities themselves, without neighbours"

# The distance of entities near these, and a note; of whoever knows how entities hang together.
Neighbours = Callable[[Caller, Sequence[str]], tuple[dict[str, int], str]]
NEIGHBOURS: Registry[Neighbours] = Registry("neighbours")
# What asks for another look at some of these memories; of whoever watches their subjects.
Hints = Callable[[Sequence[UUID]], dict[UUID, str]]
HINTS: Registry[Hints] = Registry("hints")


@dataclass(frozen=True)
class Hit:
    """One recalled memory; `content` and `status` are those in force at the time asked about."""

    record: MemoryRecord
    score: float
    cosine: float | None
    coverage: float
    bonus: float
    content: str
    status: str


@dataclass(frozen=True)
class Recall:
    hits: list[Hit]
    strategy: str
    ranking: str  # hybrid, lexical, entity or graph
    degraded: bool = False
    note: str = ""
    left_out: dict[str, int] = field(default_factory=dict)  # status → matches that are not shown for it
    hints: dict[UUID, str] = field(default_factory=dict)  # what changed near what a memory says, and may concern it


@dataclass(frozen=True)
class Filters:
    """Which of the visible memories are searched; all conditions hold together."""

    dimension: str = ""
    category: str = ""
    persona: str = ""
    tags: Sequence[str] = ()
    entity: str = ""
    statuses: Sequence[str] = (Status.ACTIVE,)
    owner: str = ""
    conversation_id: str = ""
    created_before: datetime | None = None


@dataclass(frozen=True)
class Question:
    """What the arms work with."""

    vector: Sequence[float] | None = None
    terms: Sequence[lexicon.Term] = ()
    distances: dict[str, int] = field(default_factory=dict)


def in_scope(caller: Caller, filters: Filters) -> MemoryRecordQuerySet:
    """The rows that this search is about: what the caller may see, narrowed."""
    rows = MemoryRecord.objects.visible_to(caller).filter(status__in=list(filters.statuses))
    rows = rows.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now()))
    if filters.conversation_id:
        rows = rows.filter(conversation_id=filters.conversation_id)
    else:
        rows = rows.exclude(tier=Tier.SHORT_TERM)
    exact = {
        "dimension": filters.dimension,
        "category": filters.category,
        "persona": filters.persona,
        "created_by": filters.owner,
    }
    rows = rows.filter(**{column: value for column, value in exact.items() if value})
    if filters.tags:
        rows = rows.filter(tags__contains=list(filters.tags))
    if filters.entity:
        rows = rows.filter(entity_urns__contains=[filters.entity])
    if filters.created_before:
        rows = rows.filter(created_at__lte=filters.created_before)
    return rows


# -- arms ------------------------------------------------------------------------------------------------


def is_small(scope: MemoryRecordQuerySet) -> bool:
    """Whether an exact scan is quicker and surer than the index (measured in bench/recall_speed.py)."""
    limit = settings.RECALL_EXACT_SCAN_ROWS
    return scope.order_by()[: limit + 1].count() <= limit


def nearest(scope: MemoryRecordQuerySet, vector: Sequence[float], *, exact: bool) -> MemoryRecordQuerySet:
    """Rows with a vector, nearest first. An approximate index loses the rows of a small scope; so that one is
    scanned: the added zero keeps the planner from the HNSW index."""
    distance: Combinable = CosineDistance("embedding", list(vector))
    if exact:
        distance = CombinedExpression(distance, "+", Value(0.0), output_field=FloatField())
    return scope.filter(embedding__isnull=False).order_by(distance)


# One arm each: the nearest vectors, the best covered words, the newest about the named entities.
SEMANTIC = """
    (SELECT id FROM memory_records WHERE {scope} AND embedding IS NOT NULL
     ORDER BY (embedding <=> (SELECT vector FROM question)){exactly} LIMIT %(candidates)s)"""
LEXICAL = """
    (SELECT id FROM memory_records WHERE {scope} AND search @@ %(words)s::tsquery
     ORDER BY {coverage} DESC, id LIMIT %(candidates)s)"""
NEAR = """
    (SELECT id FROM memory_records WHERE {scope} AND entity_urns && %(urns)s::varchar[]
     ORDER BY created_at DESC, id LIMIT %(candidates)s)"""
# All candidates by one formula. Ties break by age and id, so that an answer can be reproduced.
RANKED = """
    WITH question AS MATERIALIZED (SELECT %(vector)s::vector AS vector),
    scored AS (
        SELECT {columns}, {cosine} AS cosine, {coverage} AS coverage, {bonus} AS bonus
        FROM memory_records WHERE id IN ({arms}) AND {scope}
    )
    SELECT *, %(w_semantic)s * coalesce(cosine, 0) + %(w_lexical)s * coverage + bonus AS score
    FROM scored ORDER BY score DESC, created_at DESC, id LIMIT %(limit)s"""
COSINE = "1 - (embedding <=> (SELECT vector FROM question))"
BONUS = "CASE WHEN entity_urns && %(urns{0})s::varchar[] THEN %(bonus{0})s ELSE "


def ranking(scope: MemoryRecordQuerySet, question: Question, limit: int) -> tuple[str, dict[str, Any]]:
    """The statement that makes the scope's candidates, scores and orders them. Values are parameters; what is
    formatted in are this module's fragments and the scope's own condition, compiled by the ORM."""
    scope_sql, params = condition(scope)
    exact, weighed = True, list(question.terms)
    if weighed or question.vector is not None:  # a look at entities alone has nothing to weigh
        exact, weighed = lexicon.weigh(question.terms, scope_sql, params, settings.RECALL_EXACT_SCAN_ROWS)
    coverage, terms = lexicon.coverage_sql(weighed)
    bonus, bonuses = _bonus_sql(question.distances)
    arms = []
    if question.vector is not None:
        arms.append(SEMANTIC.format(scope=scope_sql, exactly=" + 0" if exact else ""))
    if weighed:
        arms.append(LEXICAL.format(scope=scope_sql, coverage=coverage))
    if question.distances:
        arms.append(NEAR.format(scope=scope_sql))
    sql = RANKED.format(
        columns=", ".join(COLUMNS),
        cosine=COSINE if question.vector is not None else "NULL::float8",
        coverage=coverage,
        bonus=bonus,
        arms=" UNION ALL ".join(arms) or "NULL",
        scope=scope_sql,
    )
    words = lexicon.any_of(weighed) if exact else lexicon.selective(weighed)
    values = {
        "vector": str(list(question.vector)) if question.vector is not None else None,
        "words": words,
        "urns": list(question.distances),
        "candidates": CANDIDATES,
        "w_semantic": settings.RECALL_SEMANTIC_WEIGHT,
        "w_lexical": settings.RECALL_LEXICAL_WEIGHT,
        "limit": limit,
    }
    return sql, {**params, **terms, **bonuses, **values}


COLUMNS = [
    str(field.column) for field in MemoryRecord._meta.concrete_fields if field.name not in ("embedding", "search")
]


def _bonus_sql(distances: dict[str, int]) -> tuple[str, dict[str, Any]]:
    """SQL for the bonus of the nearest of the record's entities."""
    params: dict[str, Any] = {}
    cases = ""
    for distance in sorted(set(distances.values())):
        cases += BONUS.format(distance)
        params[f"urns{distance}"] = [urn for urn, far in distances.items() if far == distance]
        params[f"bonus{distance}"] = ENTITY_BONUS / (1 + distance)
    return f"({cases}0{' END' * len(set(distances.values()))})::float8", params


# -- recall ----------------------------------------------------------------------------------------------


@carries_out(RecallMemories)
def recall(ask: RecallMemories, *, caller: Caller, filters: Filters = Filters()) -> Recall:
    """The memories that answer best, of those the caller may see.

    `query` is needed for semantic and lexical, `entity_urns` for entity and graph, either for auto.
    Raises Invalid. With the embedder away it answers by words alone and says so.
    """
    _check_needs(ask)
    as_of, limit = ask.as_of, ask.limit
    filters = _narrowed(filters, ask)
    question, answer = _prepare(caller, ask.query, ask.strategy, ask.entity_urns)
    scope = in_scope(caller, filters).filter(~Exists(_own_doubts(caller)))
    floor = settings.RECALL_MIN_SCORE if question.vector is not None else 0.0
    rows = MemoryRecord.objects.raw(*ranking(scope, question, 3 * CANDIDATES if as_of else limit))
    hits = [hit for hit in map(_hit, rows) if hit.score > floor]
    if as_of:
        allowed = {Status.ACTIVE, Status.STALE} if ask.include_stale else {Status.ACTIVE}
        hits = _as_of(caller, hits, as_of, allowed)[:limit]
        label = f"as of {as_of.isoformat()}: texts and status of that time, ranked by today's index"
        return replace(answer, hits=hits, note="; ".join(filter(None, [answer.note, label])))
    least = hits[-1].score if len(hits) == limit else floor
    left_out = _left_out(caller, filters, question, least)
    hints = hints_about([hit.record.pk for hit in hits]) if hits else {}
    return replace(answer, hits=hits, left_out=left_out, hints=hints)


def _own_doubts(caller: Caller) -> QuerySet[Feedback]:
    """What this reader has called wrong is not recalled for this reader."""
    return Feedback.objects.filter(record=OuterRef("pk"), by=caller.email, verdict=Verdict.WRONG)


def _left_out(caller: Caller, filters: Filters, question: Question, least: float) -> dict[str, int]:
    """Stale and superseded memories that match as well as what is shown, and are not shown for their status."""
    hidden = [status for status in (Status.STALE, Status.SUPERSEDED) if status not in filters.statuses]
    if list(filters.statuses) not in ([Status.ACTIVE], [Status.ACTIVE, Status.STALE]):
        return {}
    scope = in_scope(caller, replace(filters, statuses=hidden))
    rows = MemoryRecord.objects.raw(*ranking(scope, question, CANDIDATES))
    counted = Counter(str(row.status) for row in map(_hit, rows) if row.score > least)
    return dict(counted)


def hints_about(ids: Sequence[UUID]) -> dict[UUID, str]:
    hints: dict[UUID, str] = {}
    for source in HINTS.values():
        for pk, hint in source(ids).items():
            hints[pk] = "; ".join(filter(None, [hints.get(pk, ""), hint]))
    return hints


def _check_needs(ask: RecallMemories) -> None:
    strategy, query, urns = ask.strategy, ask.query, ask.entity_urns
    if strategy in ("semantic", "lexical") and not query:
        raise Invalid("is missing", field="query", allowed=f"a text: strategy {strategy} searches by it")
    if strategy in ("entity", "graph") and not urns:
        raise Invalid("is missing", field="entity_urns", allowed=f"1 to 10 URNs: strategy {strategy} looks them up")
    if not query and not urns:
        raise Invalid("is missing", field="query", allowed="a text, or entity_urns, or both")


def _narrowed(filters: Filters, ask: RecallMemories) -> Filters:
    statuses, dimension = list(filters.statuses), ask.dimension or filters.dimension
    if ask.include_stale:
        statuses = [*statuses, Status.STALE]
    if ask.as_of:
        statuses = list(Status.values)  # what it is today says nothing of what it was
    return replace(
        filters,
        dimension=checked(DimensionName, dimension, "dimension") if dimension else "",
        tags=[*filters.tags, *ask.tags],
        statuses=statuses,
        created_before=ask.as_of,
    )


def _prepare(caller: Caller, query: str, strategy: str, urns: list[str]) -> tuple[Question, Recall]:
    """What to ask the arms, and how the answer is labelled. Inference comes first, while no connection is held."""
    vector, away = _vector(query) if query and strategy != "lexical" else (None, "")
    distances, answer = _distances(caller, strategy, urns)
    question = Question(vector=vector, distances=distances)
    if not query:
        return question, replace(answer, ranking="graph" if strategy == "auto" else strategy)
    question = replace(question, terms=lexicon.query_terms(query))
    if strategy in ("auto", "semantic"):
        if away:
            note = "; ".join(filter(None, [answer.note, f"{away}; {LEXICAL_NOTE}"]))
            return question, replace(answer, ranking="lexical", degraded=True, note=note)
        return question, replace(answer, ranking="hybrid")
    return question, answer


def _vector(query: str) -> tuple[Sequence[float] | None, str]:
    """The query's vector, or why there is none."""
    try:
        return embedding.embed_one(query)[0], ""
    except embedding.EmbedderUnavailable as error:
        return None, str(error)


def _distances(caller: Caller, strategy: str, urns: list[str]) -> tuple[dict[str, int], Recall]:
    """The named entities with those near them where that is asked for, and the answer begun."""
    answer = Recall(hits=[], strategy=strategy, ranking=strategy)
    distances = dict.fromkeys(urns, 0)
    if not urns or strategy not in ("auto", "graph"):
        return distances, answer
    if not NEIGHBOURS:
        return distances, replace(answer, note=NO_CATALOG_NOTE if strategy == "graph" else "")
    nearest_by_urn, notes = _neighbours(caller, urns)
    near = sorted(nearest_by_urn.items(), key=lambda item: (item[1], item[0]))
    distances = {**dict(near[: URNS_PER_QUERY - len(urns)]), **distances}
    return distances, replace(answer, note="; ".join(notes), degraded=bool(notes))


def _neighbours(caller: Caller, urns: list[str]) -> tuple[dict[str, int], list[str]]:
    """Of all who know some: each entity at its least distance, and what is degraded."""
    distances: dict[str, int] = {}
    notes = []
    for source in NEIGHBOURS.values():
        try:
            near, note = source(caller, urns)
        except DomainError as error:
            near, note = {}, f"{NO_LINEAGE_NOTE}: {error.message}"
        for urn, distance in near.items():
            distances[urn] = min(distance, distances.get(urn, distance))
        notes += [note] if note else []
    return distances, notes


def _hit(row: Any) -> Hit:
    return Hit(
        record=row,
        score=row.score,
        cosine=row.cosine,
        coverage=row.coverage,
        bonus=row.bonus,
        content=row.content,
        status=row.status,
    )


def _as_of(caller: Caller, hits: list[Hit], moment: datetime, allowed: set[Status]) -> list[Hit]:
    """The hits as they stood then; what was hidden, archived or superseded at that time falls out."""
    states = states_at(caller, [hit.record for hit in hits], moment)
    then = []
    for hit in hits:
        state = states.get(hit.record.pk)
        if state is not None and state.status in allowed:
            for name, value in state.details.items():
                setattr(hit.record, name, value_of(name, value))  # shown, never saved
            then.append(replace(hit, content=state.content, status=state.status))
    return then
