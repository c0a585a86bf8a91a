"""Recall: what may be read and answers best.

One statement makes candidates and ranks them (ranking); where some of the best are turns of conversations, what stands
around them joins in (context). Everything breaks ties by age and id, so an answer can be reproduced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from memories import embedding, extensions
from memories.contract.errors import DomainError, Invalid
from memories.contract.operations import validate
from memories.database import prepared_statements
from memories.embedding import Tokens
from memories.history import states_at
from memories.identity.caller import Caller
from memories.models import MemoryRecord, Status, Tier
from memories.models.revision import value_of
from memories.operations import DimensionName, RecallMemories
from memories.retrieval import conversation_context, passages, rerank, term_statistics
from memories.retrieval.question_features import Cues
from memories.retrieval.ranking import CANDIDATES, Question, Ranked, candidates, order
from memories.retrieval.scope import NO_FILTERS, Filters, compiled_scope, compiled_visibility

URNS_PER_QUERY = 200  # named entities with their neighbours
# In the order of an index that is mostly empty, and by the condition that it has.
ANY_HIDDEN = """
    SELECT id FROM memory_records WHERE {scope} AND NOT status = 'active' ORDER BY status, created_at DESC LIMIT 1"""
STATUSES = "SELECT status FROM memory_records WHERE id = ANY(%s)"

LEXICAL_NOTE = "results are lexical-only (exact-term matches), not semantic"
NO_LINEAGE_NOTE = "the lineage can't be read, so only the named entities themselves were looked up"


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
    passage: tuple[int, int] | None = None  # where the best passage of a long text stands, from and to

    @property
    def quotation(self) -> str:
        """The content, or the best passage of a long one."""
        return self.content[slice(*self.passage)].strip() if self.passage else self.content


@dataclass(frozen=True)
class Recall:
    hits: list[Hit]
    strategy: str
    ranking: str  # hybrid, context with tokens, context, lexical, entity or graph
    degraded: bool = False
    note: str = ""
    left_out: dict[str, int] = field(default_factory=dict)  # status → matches that are not shown for it
    hints: dict[UUID, str] = field(default_factory=dict)  # what changed near what a memory says, and may concern it


# -- recall ----------------------------------------------------------------------------------------------


def recall(operation: RecallMemories, *, caller: Caller, filters: Filters = NO_FILTERS) -> Recall:
    """The memories that answer best, of those the caller may see.

    `query` is needed for semantic and lexical, `entity_urns` for entity and graph, either for auto.
    Raises Invalid. With the embedder away it answers by words alone and says so.
    """
    _check_needs(operation)
    as_of, limit = operation.as_of, operation.limit
    filters = _narrowed(filters, operation)
    question, answer, tokens = _prepare(caller, operation.query, operation.strategy, operation.entity_urns)
    question = replace(question, turns=bool(filters.conversation_id) or Tier.SHORT_TERM in filters.tiers)
    scope = compiled_scope(caller, filters, without_doubts=True)
    floor = settings.RECALL_MIN_SCORE if question.vector is not None else 0.0
    rows_found, idfs = candidates(scope, question, 3 * CANDIDATES if as_of else CANDIDATES)
    rows_found = [candidate for candidate in rows_found if candidate.score > floor]
    if as_of:
        return _past(caller, operation, answer, sorted(map(Ranked.of, rows_found), key=order))
    if question.terms and any(candidate.conversation_id for candidate in rows_found):
        rows, stage = conversation_context.ranked(
            scope, question, rows_found[: conversation_context.SEEDS], idfs, tokens
        )
        answer = replace(answer, ranking=stage if answer.ranking == "hybrid" else answer.ranking)
    else:
        rows = sorted(map(Ranked.of, rows_found), key=order)
    reranks = settings.RERANK_PROVIDER != "none" and bool(operation.query)
    hits = _with_passages(_hits(caller, rows[: max(limit, rerank.LOOKED_AT) if reranks else limit]), question)
    if reranks and hits:
        hits, answer = _reranked(operation.query, hits, answer)
    hits = hits[:limit]
    least = min((row.plain for row in rows[:limit]), default=floor) if len(hits) == limit else floor
    left_out = _left_out(caller, filters, question, least)
    with_entities = [hit.record.pk for hit in hits if hit.record.entity_urns]
    hints = hints_about(with_entities) if with_entities else {}
    return replace(answer, hits=hits, left_out=left_out, hints=hints)


def _reranked(query: str, hits: list[Hit], answer: Recall) -> tuple[list[Hit], Recall]:
    """The best hits in the order of the cross-encoder, the rest behind them."""
    first, rest = hits[: rerank.LOOKED_AT], hits[rerank.LOOKED_AT :]
    try:
        scores = rerank.relevances(query, [hit.quotation for hit in first])
    except rerank.RerankerUnavailable as error:
        note = f"not reranked: {error}"
        return hits, replace(answer, degraded=True, note="; ".join(filter(None, [answer.note, note])))
    ranks = sorted(range(len(first)), key=lambda n: (-scores[n], n))
    reordered = [replace(first[n], score=scores[n]) for n in ranks]
    return reordered + rest, replace(answer, ranking=f"{answer.ranking}, reranked")


def _hits(caller: Caller, rows: Sequence[Ranked]) -> list[Hit]:
    visible = compiled_visibility(caller)
    criterion = f"id = ANY(%(ids)s) AND ({visible.sql})"
    values = {**visible.params, "ids": [row.id for row in rows]}
    records = {
        record.pk: record for record in prepared_statements.instances(MemoryRecord, criterion, values, defer=["search"])
    }
    return [
        Hit(record, row.score, row.cosine, row.coverage, row.bonus, record.content, record.status)
        for row in rows
        if (record := records.get(row.id))
    ]


def _past(caller: Caller, operation: RecallMemories, answer: Recall, rows: Sequence[Ranked]) -> Recall:
    """The answer as of a time."""
    moment: Any = operation.as_of
    allowed = {Status.ACTIVE, Status.STALE} if operation.include_stale else {Status.ACTIVE}
    hits = _as_of(caller, _hits(caller, rows), moment, allowed)[: operation.limit]
    label = f"as of {moment.isoformat()}: texts and status of that time, ranked by today's index"
    return replace(answer, hits=hits, note="; ".join(filter(None, [answer.note, label])))


def _with_passages(hits: list[Hit], question: Question) -> list[Hit]:
    """Long texts are quoted by their best passage."""
    long_ids = [hit.record.pk for hit in hits if len(hit.content) > passages.MAX_WHOLE]
    best = passages.nearest_passages(long_ids, question.vector) if long_ids and question.vector is not None else {}
    return [replace(hit, passage=_in_content(hit, best.get(hit.record.pk))) for hit in hits]


def _in_content(hit: Hit, passage: tuple[int, int] | None) -> tuple[int, int] | None:
    """Where a passage of what is embedded stands in the content alone: the speaker's name is before it."""
    name = len(hit.record.spoken) - len(hit.record.content)
    return (max(passage[0] - name, 0), passage[1] - name) if passage else None


def _left_out(caller: Caller, filters: Filters, question: Question, least: float) -> dict[str, int]:
    """Stale and superseded memories that match as well as what is shown, and are not shown for their status."""
    hidden = tuple(status for status in (Status.STALE, Status.SUPERSEDED) if status not in filters.statuses)
    if filters.statuses not in ((Status.ACTIVE,), (Status.ACTIVE, Status.STALE)):
        return {}
    scope = compiled_scope(caller, replace(filters, statuses=hidden))
    if not prepared_statements.rows(ANY_HIDDEN.format(scope=scope.sql), scope.params):
        return {}
    near, _ = candidates(scope, question, CANDIDATES)
    better = [candidate.id for candidate in near if candidate.score > least]
    return dict(Counter(status for (status,) in prepared_statements.rows(STATUSES, [better])))


def hints_about(ids: Sequence[UUID]) -> dict[UUID, str]:
    hints: dict[UUID, str] = {}
    for extension in extensions.registered():
        for pk, hint in extension.verification_hints(ids).items():
            hints[pk] = "; ".join(filter(None, [hints.get(pk, ""), hint]))
    return hints


def _check_needs(operation: RecallMemories) -> None:
    strategy, query, urns = operation.strategy, operation.query, operation.entity_urns
    if strategy in ("semantic", "lexical") and not query:
        raise Invalid("is missing", field="query", allowed=f"a text: strategy {strategy} searches by it")
    if strategy in ("entity", "graph") and not urns:
        raise Invalid("is missing", field="entity_urns", allowed=f"1 to 10 URNs: strategy {strategy} looks them up")
    if not query and not urns:
        raise Invalid("is missing", field="query", allowed="a text, or entity_urns, or both")


def _narrowed(filters: Filters, operation: RecallMemories) -> Filters:
    statuses, dimension = tuple(filters.statuses), operation.dimension or filters.dimension
    if operation.include_stale:
        statuses = (*statuses, Status.STALE)
    if operation.as_of:
        statuses = tuple(Status.values)  # what it is today says nothing of what it was
    return replace(
        filters,
        dimension=validate(DimensionName, dimension, "dimension") if dimension else "",
        tags=(*filters.tags, *operation.tags),
        statuses=statuses,
        tiers=tuple(filters.tiers),
        created_before=operation.as_of,
    )


def _prepare(caller: Caller, query: str, strategy: str, urns: list[str]) -> tuple[Question, Recall, Tokens | None]:
    """What to ask the arms, how the answer is labelled, and the question's word pieces. Inference comes first, while no
    connection is held."""
    vector, tokens, away = _read(query) if query and strategy != "lexical" else (None, None, "")
    distances, answer = _distances(caller, strategy, urns)
    question = Question(vector=vector, distances=distances)
    if not query:
        return question, replace(answer, ranking="graph" if strategy == "auto" else strategy), None
    question = replace(question, terms=term_statistics.query_terms(query), cues=Cues.of(query))
    if strategy in ("auto", "semantic"):
        if away:
            note = "; ".join(filter(None, [answer.note, f"{away}; {LEXICAL_NOTE}"]))
            return question, replace(answer, ranking="lexical", degraded=True, note=note), None
        return question, replace(answer, ranking="hybrid"), tokens
    return question, answer, None


def _read(query: str) -> tuple[Sequence[float] | None, Tokens | None, str]:
    """The query's vector and word pieces, or why there are none."""
    try:
        vectors, tokens, _ = embedding.embed_tokens([query])
    except embedding.EmbedderUnavailable as error:
        return None, None, str(error)
    return vectors[0].tolist(), tokens[0] if tokens else None, ""


def _distances(caller: Caller, strategy: str, urns: list[str]) -> tuple[dict[str, int], Recall]:
    """The named entities with those near them where that is asked for, and the answer begun."""
    answer = Recall(hits=[], strategy=strategy, ranking=strategy)
    distances = dict.fromkeys(urns, 0)
    if not urns or strategy not in ("auto", "graph"):
        return distances, answer
    nearest_by_urn, notes = _neighbours(caller, urns)
    near = sorted(nearest_by_urn.items(), key=lambda item: (item[1], item[0]))
    distances = {**dict(near[: URNS_PER_QUERY - len(urns)]), **distances}
    return distances, replace(answer, note="; ".join(notes), degraded=bool(notes))


def _neighbours(caller: Caller, urns: list[str]) -> tuple[dict[str, int], list[str]]:
    """Of all who know some: each entity at its least distance, and what is degraded."""
    distances: dict[str, int] = {}
    notes = []
    for extension in extensions.registered():
        try:
            near, note = extension.related_entities(caller, urns)
        except DomainError as error:
            near, note = {}, f"{NO_LINEAGE_NOTE}: {error.message}"
        for urn, distance in near.items():
            distances[urn] = min(distance, distances.get(urn, distance))
        notes += [note] if note else []
    return distances, notes


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
