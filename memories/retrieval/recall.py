"""Recall: find the memories that answer a query best, among those that the caller may see.

One statement finds and scores candidates (ranking.py). If some of them are turns of conversations, the turns around
them are ranked too (conversation_context.py). Ties are broken by age and id, so that results are stable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils.translation import gettext

from foundation import embedding
from foundation.database import prepared_statements
from foundation.embedding import Tokens
from foundation.operations.errors import DomainError, Invalid
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from memories import extensions, metrics_hooks
from memories.history import states_at
from memories.models import IN_USE, MemoryRecord, Status, Tier
from memories.models.revision import value_of
from memories.operations import DimensionName, RecallMemories
from memories.retrieval import conversation_context, passages, rerank, term_statistics
from memories.retrieval.filters import (
    ANY_TIME,
    NO_FILTERS,
    OUTSIDE,
    WITHIN,
    Filters,
    compiled_filters,
    compiled_visibility,
    visible_rows,
)
from memories.retrieval.question_features import Cues
from memories.retrieval.ranking import (
    CANDIDATES,
    Ranked,
    RankedCandidate,
    RecallQuestion,
    candidates,
    has_at_most,
    order,
)
from memories.validity.scopes.differing import labels_and_note

MIN_SCORE_OF_TURNS = 0.1  # what RECALL_MIN_SCORE is for other memories; turns are ranked with their neighbors

URNS_PER_QUERY = 200  # maximum number of named and related entities together
# The condition and the order match the partial index memory_not_active, which has few rows.
# The second part matches the partial index memory_bounded, which has few rows, too.
ANY_HIDDEN = """
    (SELECT id FROM memory_records WHERE {hidden} AND NOT status = 'active' ORDER BY status, created_at DESC LIMIT 1)
    UNION ALL (SELECT id FROM memory_records WHERE {outside} LIMIT 1) LIMIT 1"""
REASONS = """
    SELECT CASE WHEN NOT status = ANY(%(chosen)s) THEN status
        WHEN valid_until <= now() OR condition_ended_at IS NOT NULL THEN 'expired' ELSE 'not_yet_valid' END
    FROM memory_records WHERE id = ANY(%(ids)s)"""

LEXICAL_NOTE = "results are lexical-only (exact-term matches), not semantic"
NO_LINEAGE_NOTE = "the lineage can't be read, so entities related by lineage were not looked up"
NO_SUCH_ID = "no memory that you may read has this id, or it is archived, or the filters exclude it"


@dataclass(frozen=True)
class RecallHit:
    """One recalled memory. With `as_of`, `content` and `status` are those of that time, otherwise the current ones."""

    record: MemoryRecord
    score: float
    cosine: float | None
    coverage: float
    bonus: float
    content: str
    status: str
    passage: tuple[int, int] | None = None  # start and stop of the best passage in `content`, for a long text
    is_distant: bool = False  # scores below RECALL_MIN_SCORE, and is returned because nothing else was found

    @property
    def quotation(self) -> str:
        return self.content[slice(*self.passage)].strip() if self.passage else self.content


@dataclass(frozen=True)
class Recall:
    hits: list[RecallHit]
    strategy: str
    ranking: str  # hybrid, context with tokens, context, lexical, entity or graph; ends in ", reranked" if so
    degraded: bool = False
    note: str = ""
    left_out: dict[str, int] = field(default_factory=dict)  # reason → number of matches left out, as by _left_out
    below: int = 0  # number of candidates that scored too low, at most CANDIDATES of each search
    hints: dict[UUID, str] = field(default_factory=dict)  # record id → why the memory should be verified
    scopes: dict[str, str] = field(default_factory=dict)  # the hits' scopes → what they are called
    checks: Mapping[UUID, extensions.CheckSummary] = field(default_factory=dict)  # of the memories that have checks
    terms: Sequence[term_statistics.Term] = ()  # the words of the query that were searched for


def recall(
    caller: Caller, operation: RecallMemories, *, filters: Filters = NO_FILTERS, distant: bool = False
) -> Recall:
    """Return the memories that answer the query best.

    A memory whose id is the query comes first. With `distant`, a search that would find nothing returns the nearest
    memory if it scores above RECALL_DISTANT_SCORE, marked as such: a question in other words than its answer scores
    hardly more than one that nothing answers.

    Raises Invalid if the strategy lacks its input: semantic and lexical need `query`, entity and graph need
    `entity_urns`, and auto needs at least one of them. While the embedder is unavailable, texts are searched by words
    only; for auto and semantic, `note` mentions it.
    """
    _check_inputs(operation)
    filters = _apply_operation(filters, operation)
    question, result, tokens = _prepare(caller, operation.query, operation.strategy, operation.entity_urns)
    question = replace(question, turns=bool(filters.conversation_id) or Tier.SHORT_TERM in filters.tiers)
    should_rerank = settings.RERANK_PROVIDER != "none" and bool(operation.query)
    looked_at = max(operation.limit, rerank.LOOKED_AT) if should_rerank else operation.limit
    with prepared_statements.in_one_transaction():
        question = _with_terms(caller, question, operation.query)
        search = _search(caller, filters, question, tokens, looked_at, is_as_of=operation.as_of is not None)
        hits = search.hits
        left_out = {}
        named = None
        if not operation.as_of:
            named = _named(caller, filters, operation.query)
            is_unknown_id = named is None and _id_in(operation.query) is not None
            if is_unknown_id:
                result = replace(result, note="; ".join(filter(None, [result.note, NO_SUCH_ID])))
            if distant and not hits and not named and not is_unknown_id:
                hits = [replace(hit, is_distant=True) for hit in _first_hits(caller, search.nearest, 1)]
            best = search.rows[: operation.limit]
            lowest = min((row.plain_score for row in best), default=0.0) if len(hits) >= operation.limit else 0.0
            left_out = _left_out(caller, filters, question, lowest)
    metrics_hooks.observer.recalled(candidates=search.compared, is_degraded=result.degraded)
    result = replace(result, terms=question.terms)
    if operation.as_of:
        return _recall_as_of(caller, operation, result, search.rows)
    if search.formula and result.ranking == "hybrid":
        result = replace(result, ranking=search.formula)
    if should_rerank and hits:
        hits, result = _reranked(operation.query, hits, result)
    if named:
        hits = [named, *(hit for hit in hits if hit.record.pk != named.record.pk)]
    hits = hits[: operation.limit]
    with_entities = [hit.record.pk for hit in hits if hit.record.entity_urns or hit.record.detected_urns]
    hints = hints_about(with_entities) if with_entities else {}
    result = replace(result, checks=extensions.checks_of([hit.record.pk for hit in hits]))
    result = _with_scopes(replace(result, hits=hits))
    return replace(result, left_out=left_out, hints=hints, below=search.below)


@dataclass(frozen=True)
class _Search:
    rows: list[Ranked]  # best first
    hits: list[RecallHit]  # the first of them
    compared: int  # number of candidates
    below: int  # number of those that scored too low
    nearest: Sequence[Ranked] = ()  # the best of those, if no candidate scored high enough
    formula: str = ""  # of the ranking in the context of conversations, if some candidates are turns


def _search(
    caller: Caller, filters: Filters, question: RecallQuestion, tokens: Tokens | None, limit: int, *, is_as_of: bool
) -> _Search:
    """Find and rank candidates, and load the first `limit` of them, unless their state of an earlier time is wanted."""
    searched = compiled_filters(caller, filters, exclude_marked_wrong=True)
    # With as_of more candidates are needed, because memories that were hidden at that time are dropped afterwards.
    found, idfs = candidates(searched, question, 3 * CANDIDATES if is_as_of else CANDIDATES)
    relevant = _relevant(found, question)
    below = len(found) - len(relevant)
    if is_as_of:
        return _Search(sorted(map(Ranked.of, relevant), key=order), [], len(found), below)
    formula = ""
    if question.terms and any(candidate.conversation_id for candidate in relevant):
        seeds = relevant[: conversation_context.SEEDS]
        rows, formula = conversation_context.rank_in_context(searched, question, seeds, idfs, tokens)
    else:
        rows = sorted(map(Ranked.of, relevant), key=order)
    hits = _with_passages(_first_hits(caller, rows, limit), question)
    return _Search(rows, hits, len(found), below, () if relevant else _nearest(found, question), formula)


def _nearest(found: Sequence[RankedCandidate], question: RecallQuestion) -> list[Ranked]:
    """Return the best candidate that is no turn of a conversation, if it scores above RECALL_DISTANT_SCORE."""
    if question.vector is None:
        return []
    weak = [each for each in found if not each.conversation_id and each.score > settings.RECALL_DISTANT_SCORE]
    return sorted(map(Ranked.of, weak), key=order)[:1]


def _named(caller: Caller, filters: Filters, query: str) -> RecallHit | None:
    """Return the memory whose id is the query, whatever its status, if the other filters choose it."""
    pk = _id_in(query)
    if pk is None:
        return None
    in_any_state = replace(filters, statuses=(Status.ACTIVE, Status.STALE, Status.SUPERSEDED), validity=ANY_TIME)
    record = visible_rows(caller, in_any_state).defer("search").filter(pk=pk).first()
    return RecallHit(record, 1.0, None, 0.0, 0.0, record.content, record.status) if record else None


def _id_in(query: str) -> UUID | None:
    """Return the id that a query is, or None."""
    try:
        return UUID(query.strip())
    except ValueError:
        return None


def _with_terms(caller: Caller, question: RecallQuestion, query: str) -> RecallQuestion:
    if not query:
        return question
    return replace(question, terms=term_statistics.query_terms(query, caller), cues=Cues.of(query))


def _with_scopes(result: Recall) -> Recall:
    """Add what the scopes of the hits are called, and a note if hits hold in different scopes.

    A scope neither hides a memory nor changes its rank.
    """
    names, note = labels_and_note([hit.record for hit in result.hits])
    return replace(result, scopes=names, note="; ".join(filter(None, [result.note, note]))) if names else result


def _relevant(found: Sequence[RankedCandidate], question: RecallQuestion) -> list[RankedCandidate]:
    """Return the candidates that score high enough to be hits.

    Turns of conversations are short and answer one another, so their scores may be lower.
    """
    if question.vector is None:
        return [candidate for candidate in found if candidate.score > 0.0]
    of_turns = MIN_SCORE_OF_TURNS
    of_others = settings.RECALL_MIN_SCORE
    return [
        candidate for candidate in found if candidate.score > (of_turns if candidate.conversation_id else of_others)
    ]


def _reranked(query: str, hits: list[RecallHit], result: Recall) -> tuple[list[RecallHit], Recall]:
    first = hits[: rerank.LOOKED_AT]
    rest = hits[rerank.LOOKED_AT :]
    try:
        scores = rerank.relevances(query, [hit.quotation for hit in first])
    except rerank.RerankerUnavailable as error:
        note = f"not reranked: {error}"
        return hits, replace(result, degraded=True, note="; ".join(filter(None, [result.note, note])))
    ranks = sorted(range(len(first)), key=lambda n: (-scores[n], n))
    reordered = [replace(first[n], score=scores[n]) for n in ranks]
    return reordered + rest, replace(result, ranking=f"{result.ranking}, reranked")


def _first_hits(caller: Caller, rows: Sequence[Ranked], limit: int) -> list[RecallHit]:
    """Return the first `limit` hits, of which no two are facts with the same text and owner.

    A proposal for review has a record of its own beside its author's memory.
    """
    hits: dict[tuple[str, str], RecallHit] = {}
    for start in range(0, len(rows), limit):
        for hit in _hits(caller, rows[start : start + limit]):
            record = hit.record
            text = record.pk.hex if record.tier else record.content_key
            hits.setdefault((record.created_by, text), hit)
        if len(hits) >= limit:
            break
    return list(hits.values())[:limit]


def _hits(caller: Caller, rows: Sequence[Ranked]) -> list[RecallHit]:
    visible = compiled_visibility(caller)
    criterion = f"id = ANY(%(ids)s) AND ({visible.sql})"
    values = {**visible.params, "ids": [row.id for row in rows]}
    records = {
        record.pk: record for record in prepared_statements.instances(MemoryRecord, criterion, values, defer=["search"])
    }
    return [
        RecallHit(record, row.score, row.cosine, row.coverage, row.bonus, record.content, record.status)
        for row in rows
        if (record := records.get(row.id))
    ]


def _recall_as_of(caller: Caller, operation: RecallMemories, result: Recall, rows: Sequence[Ranked]) -> Recall:
    moment: Any = operation.as_of
    allowed = {Status.ACTIVE, Status.STALE} if operation.include_stale else {Status.ACTIVE}
    hits = _hits_as_of(caller, _hits(caller, rows), moment, allowed)
    if not operation.include_stale:
        hits = [hit for hit in hits if not hit.record.validity_at(moment)]
    hits = hits[: operation.limit]
    label = f"as of {moment.isoformat()}: texts and status of that time, ranked by today's index"
    return _with_scopes(replace(result, hits=hits, note="; ".join(filter(None, [result.note, label]))))


def _with_passages(hits: list[RecallHit], question: RecallQuestion) -> list[RecallHit]:
    long_ids = [hit.record.pk for hit in hits if len(hit.content) > passages.MAX_WHOLE]
    best = (
        passages.nearest_passages(long_ids, question.vector, question.model)
        if long_ids and question.vector is not None
        else {}
    )
    return [replace(hit, passage=_in_content(hit, best.get(hit.record.pk))) for hit in hits]


def _in_content(hit: RecallHit, passage: tuple[int, int] | None) -> tuple[int, int] | None:
    # The embedded text starts with the speaker's name, so its offsets are shifted.
    prefix = len(hit.record.spoken) - len(hit.record.content)
    return (max(passage[0] - prefix, 0), passage[1] - prefix) if passage else None


def _left_out(caller: Caller, filters: Filters, question: RecallQuestion, lowest: float) -> dict[str, int]:
    """Count, by reason, memories left out although they are relevant and reach `lowest`.

    The reasons are the statuses stale and superseded, "expired" and "not_yet_valid". The result is empty unless the
    filters choose the status active, or active and stale. Of more than RECALL_EXACT_SCAN_ROWS memories, only those with
    words of the question are looked at, because their number matters less to the caller than the time of a recall.
    """
    if filters.statuses not in ((Status.ACTIVE,), IN_USE):
        return {}
    hidden = tuple(status for status in (Status.STALE, Status.SUPERSEDED) if status not in filters.statuses)
    also_outside = tuple(filters.statuses) if filters.validity == WITHIN else ()
    in_time = compiled_filters(caller, replace(filters, statuses=hidden))
    out_of_time = compiled_filters(caller, replace(filters, validity=OUTSIDE), prefix="outside")
    any_hidden = ANY_HIDDEN.format(hidden=in_time.sql, outside=out_of_time.sql if also_outside else "false")
    values = in_time.params | (out_of_time.params if also_outside else {})
    if not prepared_statements.rows(any_hidden, values):
        return {}
    searched = compiled_filters(caller, replace(filters, statuses=hidden, also_outside=also_outside))
    is_scanned = question.turns or has_at_most(settings.RECALL_EXACT_SCAN_ROWS, searched)
    if not is_scanned and not question.terms:
        return {}
    matches, _ = candidates(searched, replace(question, by_words=not is_scanned), CANDIDATES)
    better = [candidate.id for candidate in _relevant(matches, question) if candidate.score >= lowest]
    chosen = {"chosen": [str(status) for status in filters.statuses], "ids": better}
    return dict(sorted(Counter(reason for (reason,) in prepared_statements.rows(REASONS, chosen)).items()))


def hints_about(ids: Sequence[UUID]) -> dict[UUID, str]:
    hints: dict[UUID, str] = {}
    for extension in extensions.EXTENSIONS.all():
        for pk, hint in extension.verification_hints(ids).items():
            hints[pk] = "; ".join(filter(None, [hints.get(pk, ""), hint]))
    return hints


def _check_inputs(operation: RecallMemories) -> None:
    strategy = operation.strategy
    query = operation.query
    urns = operation.entity_urns
    if strategy in ("semantic", "lexical") and not query:
        raise Invalid(
            gettext("is missing"),
            field="query",
            allowed=gettext("a text: strategy %(strategy)s searches by it") % {"strategy": strategy},
        )
    if strategy in ("entity", "graph") and not urns:
        raise Invalid(
            gettext("is missing"),
            field="entity_urns",
            allowed=gettext("1 to 10 URNs: strategy %(strategy)s looks them up") % {"strategy": strategy},
        )
    if not query and not urns:
        raise Invalid(gettext("is missing"), field="query", allowed=gettext("a text, or entity_urns, or both"))


def _apply_operation(filters: Filters, operation: RecallMemories) -> Filters:
    statuses = tuple(filters.statuses)
    dimension = operation.dimension or filters.dimension
    if operation.include_stale:
        statuses = (*statuses, Status.STALE)
    if operation.as_of:
        statuses = tuple(Status.values)  # the status at the time `as_of` is checked afterwards
    return replace(
        filters,
        dimension=validate(DimensionName, dimension, "dimension") if dimension else "",
        tags=(*filters.tags, *operation.tags),
        statuses=statuses,
        tiers=tuple(filters.tiers),
        created_before=operation.as_of,
        # With as_of, the validity at that time is checked afterwards, too.
        validity=ANY_TIME if operation.include_stale or operation.as_of else filters.validity,
    )


def _prepare(
    caller: Caller, query: str, strategy: str, urns: list[str]
) -> tuple[RecallQuestion, Recall, Tokens | None]:
    """Return the question without its terms, a result without hits, and the word pieces of the query."""
    # The query is embedded first, while no database connection is held.
    asked = _embed(query) if query and strategy != "lexical" else EmbeddedQuery()
    distances, result = _distances(caller, strategy, urns)
    question = RecallQuestion(vector=asked.vector, model=asked.model, distances=distances)
    if not query:
        return question, replace(result, ranking="graph" if strategy == "auto" else strategy), None
    if strategy in ("auto", "semantic"):
        if asked.problem:
            note = "; ".join(filter(None, [result.note, f"{asked.problem}; {LEXICAL_NOTE}"]))
            return question, replace(result, ranking="lexical", degraded=True, note=note), None
        return question, replace(result, ranking="hybrid"), asked.tokens
    return question, result, None


@dataclass(frozen=True)
class EmbeddedQuery:
    """The vector and word pieces of a query with the name of the model, or why it could not be embedded."""

    vector: Sequence[float] | None = None
    tokens: Tokens | None = None
    model: str = ""
    problem: str = ""


def _embed(query: str) -> EmbeddedQuery:
    try:
        vectors, tokens, model = embedding.embed_tokens([query], as_query=True)
    except embedding.EmbedderUnavailable as error:
        return EmbeddedQuery(problem=str(error))
    return EmbeddedQuery(vectors[0].tolist(), tokens[0] if tokens else None, model)


def _distances(caller: Caller, strategy: str, urns: list[str]) -> tuple[dict[str, int], Recall]:
    """Return the distances of the named entities and, for the strategies auto and graph, of related entities.

    The second value is a result without hits. It is degraded, with a note, if an extension reported a problem.
    """
    result = Recall(hits=[], strategy=strategy, ranking=strategy)
    distances = dict.fromkeys(urns, 0)
    if not urns or strategy not in ("auto", "graph"):
        return distances, result
    related_distances, notes = _related_entities(caller, urns)
    related = sorted(related_distances.items(), key=lambda item: (item[1], item[0]))
    distances = {**dict(related[: URNS_PER_QUERY - len(urns)]), **distances}
    return distances, replace(result, note="; ".join(notes), degraded=bool(notes))


def _related_entities(caller: Caller, urns: list[str]) -> tuple[dict[str, int], list[str]]:
    """Return the related entities from all extensions, each at its least distance, and notes on degraded results."""
    distances: dict[str, int] = {}
    notes = []
    for extension in extensions.EXTENSIONS.all():
        try:
            related, note = extension.related_entities(caller, urns)
        except DomainError as error:
            related = {}
            note = f"{NO_LINEAGE_NOTE}: {error.message}"
        for urn, distance in related.items():
            distances[urn] = min(distance, distances.get(urn, distance))
        notes += [note] if note else []
    return distances, notes


def _hits_as_of(caller: Caller, hits: list[RecallHit], moment: datetime, allowed: set[Status]) -> list[RecallHit]:
    """Return the hits in their state at `moment`.

    Hits that the caller could not read at that time, or whose status then is not in `allowed`, are dropped.
    """
    states = states_at(caller, [hit.record for hit in hits], moment)
    past_hits = []
    for hit in hits:
        state = states.get(hit.record.pk)
        if state is not None and state.status in allowed:
            for name, value in state.details.items():
                setattr(hit.record, name, value_of(name, value))  # for display; the record is never saved
            past_hits.append(replace(hit, content=state.content, status=state.status))
    return past_hits
