"""Semantic search for entities.

The candidates are the entities with the nearest observations and the entities that contain words of the query. Both
lists are merged by reciprocal rank fusion. The limbic score then ranks the candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q
from pgvector.django import CosineDistance

from foundation import embedding
from foundation.people.caller import Caller
from knowledge.graph import graphs, queries
from knowledge.graph.models import Entity, Graph, Observation, ObservationPassage
from knowledge.graph.operations import SearchSemantic
from knowledge.graph.search import access_counts, access_ranking
from knowledge.graph.search.trigrams import GRAM, query_grams, words_of
from memories.retrieval.rank_fusion import fuse

CANDIDATES = 3  # number of candidates from each list, as a multiple of the limit
MAX_MATCHES = 3  # maximum number of observations of a long entity from each list
PASSAGES = 4  # number of nearest passages read per candidate, because one entity may have several


@dataclass(frozen=True)
class EntityMatch:
    node: queries.Node
    score: access_ranking.Limbic
    distance: float | None  # cosine distance; None if the entity was found by words only
    rrf: float | None  # None unless both lists have entries


@dataclass(frozen=True)
class GraphSearchResult:
    matches: list[EntityMatch]
    note: str = ""


def search_semantic(caller: Caller, operation: SearchSemantic) -> GraphSearchResult:
    """Return the best entities. If the embedder is unavailable, search by words only and add a note."""
    graph = graphs.graph_of(caller)
    if graph is None:
        return GraphSearchResult([])
    vector, model, note = _embed_query(operation.query)
    limit = CANDIDATES * operation.limit
    distances = nearest_entities(graph, vector, model, limit) if vector is not None else {}
    with_words = by_words(graph, operation.query, limit)
    fused = fuse([list(distances), with_words])
    entities = list(Entity.objects.filter(pk__in=list(fused)).defer("folded", "grams"))
    best = max(fused.values(), default=0.0) or 1.0
    slope = embedding.question_slope()
    bases = {
        pk: max(0.0, slope * (1 - distances[pk])) if pk in distances else 0.2 + 0.6 * fused[pk] / best for pk in fused
    }
    scores = access_ranking.scores(bases, entities)
    entities.sort(key=lambda entity: (-scores[entity.pk].score, entity.number))
    nodes = queries.nodes_of(entities[: operation.limit])
    _select_matches(nodes, vector, model, words_of(operation.query))
    is_hybrid = bool(distances and with_words)
    matches = [
        EntityMatch(
            node, scores[node.entity.pk], distances.get(node.entity.pk), fused[node.entity.pk] if is_hybrid else None
        )
        for node in nodes
    ]
    access_counts.queue_count([node.entity.pk for node in nodes])
    return GraphSearchResult(matches, note)


def _select_matches(
    nodes: Sequence[queries.Node], vector: list[float] | None, model: str, words: Sequence[str]
) -> None:
    """Select the observations of long entities that are nearest to the query or contain most of its words."""
    long_nodes = [node for node in nodes if not node.is_short]
    distances = _distances([node.entity.pk for node in long_nodes], vector, model) if vector is not None else {}
    for node in long_nodes:
        nearest = sorted((row for row in node.observations if row.pk in distances), key=lambda row: distances[row.pk])
        counts = {row: len(set(words) & set(words_of(row.text))) for row in node.observations}
        with_words = sorted((row for row in counts if counts[row]), key=lambda row: (-counts[row], row.number))
        node.select([*nearest[:MAX_MATCHES], *with_words[:MAX_MATCHES]])


def _distances(entities: Sequence[UUID], vector: list[float], model: str) -> dict[UUID, float]:
    """Return the cosine distance of each observation of these entities that has an embedding."""
    rows = ObservationPassage.objects.filter(
        observation__entity__in=entities, observation__ended_at=None, observation__embedding_model=model
    )
    rows = rows.annotate(distance=CosineDistance("vector", vector) + 0.0).order_by("-distance")
    return {pk: float(distance) for pk, distance in rows.values_list("observation", "distance")}  # the nearest is last


def nearest_entities(graph: Graph, vector: list[float], model: str, limit: int) -> dict[UUID, float]:
    """Return up to `limit` entities with the cosine distance of their nearest observation, nearest first."""
    rows = ObservationPassage.objects.filter(
        observation__graph=graph,
        observation__ended_at=None,
        observation__entity__deleted_at=None,
        observation__embedding_model=model,
    )
    rows = rows.annotate(distance=CosineDistance("vector", vector) + 0.0).order_by("distance")
    distances: dict[UUID, float] = {}
    for pk, distance in rows.values_list("observation__entity", "distance")[: PASSAGES * limit]:
        distances.setdefault(pk, float(distance))
    return dict(list(distances.items())[:limit])


def by_words(graph: Graph, query: str, limit: int) -> list[UUID]:
    """Return entities that contain words of the query, those with the most words first."""
    words = [word for word in dict.fromkeys(words_of(query)) if len(word) >= GRAM]  # shorter words have no trigram
    counts: dict[UUID, int] = {}
    for word in words[:16]:
        rule = Q(graph=graph, grams__contains=query_grams(word), folded__contains=word)
        pks = set(Observation.objects.filter(rule, ended_at=None).values_list("entity", flat=True)[: 20 * limit])
        pks |= set(Entity.objects.filter(rule, deleted_at=None, is_placeholder=False).values_list("pk", flat=True))
        for pk in pks:
            counts[pk] = counts.get(pk, 0) + 1
    living = set(Entity.objects.filter(pk__in=list(counts), deleted_at=None).values_list("pk", flat=True))
    return sorted((pk for pk in counts if pk in living), key=lambda pk: (-counts[pk], pk))[:limit]


def _embed_query(query: str) -> tuple[list[float] | None, str, str]:
    try:
        return *embedding.embed_query(query), ""
    except embedding.EmbedderUnavailable as error:
        return None, "", f"{error}; results are by words only"
