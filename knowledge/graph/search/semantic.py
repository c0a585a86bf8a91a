"""Entities by meaning: the nearest observations and the words of the query, fused by reciprocal rank, then ranked by
the limbic score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, Q
from pgvector.django import CosineDistance

from knowledge.graph import graphs, queries
from knowledge.graph.models import Entity, Graph, Observation, ObservationPassage
from knowledge.graph.operations import SearchSemantic
from knowledge.graph.search import access_counts, limbic
from knowledge.graph.search.trigrams import GRAM, asked_grams, words_of
from memories import embedding
from memories.identity.caller import Caller
from memories.retrieval.rank_fusion import fuse

CANDIDATES = 3  # times the limit, per arm
PASSAGES = 4  # nearest passages looked at for each entity wanted


@dataclass(frozen=True)
class Match:
    node: queries.Node
    score: limbic.Limbic
    distance: float | None
    rrf: float | None


@dataclass(frozen=True)
class SearchResult:
    matches: list[Match]
    note: str = ""


def search_semantic(operation: SearchSemantic, *, caller: Caller) -> SearchResult:
    """The best entities; with the embedder away by words alone, and it says so."""
    graph = graphs.graph_of(caller)
    if graph is None:
        return SearchResult([])
    vector, note = _vector(operation.query)
    limit = CANDIDATES * operation.limit
    near = nearest_entities(graph, vector, limit) if vector is not None else {}
    worded = by_words(graph, operation.query, limit)
    fused = fuse([list(near), worded])
    entities = list(Entity.objects.filter(pk__in=list(fused)).defer("folded", "grams"))
    best = max(fused.values(), default=0.0) or 1.0
    bases = {pk: max(0.0, 1 - near[pk]) if pk in near else 0.2 + 0.6 * fused[pk] / best for pk in fused}
    scores = limbic.scores(bases, entities, _metadata_shares(entities))
    entities.sort(key=lambda entity: (-scores[entity.pk].score, entity.number))
    nodes = queries.nodes_of(entities[: operation.limit])
    hybrid = bool(near and worded)
    matches = [
        Match(node, scores[node.entity.pk], near.get(node.entity.pk), fused[node.entity.pk] if hybrid else None)
        for node in nodes
    ]
    access_counts.count_later([node.entity.pk for node in nodes])
    return SearchResult(matches, note)


def nearest_entities(graph: Graph, vector: list[float], limit: int) -> dict[UUID, float]:
    """Entity → cosine distance of its nearest observation, the nearest first."""
    rows = ObservationPassage.objects.filter(
        observation__graph=graph, observation__ended_at=None, observation__entity__deleted_at=None
    )
    rows = rows.annotate(distance=CosineDistance("vector", vector) + 0.0).order_by("distance")
    distances: dict[UUID, float] = {}
    for pk, distance in rows.values_list("observation__entity", "distance")[: PASSAGES * limit]:
        distances.setdefault(pk, float(distance))
    return dict(list(distances.items())[:limit])


def by_words(graph: Graph, query: str, limit: int) -> list[UUID]:
    """Entities that hold words of the query, those with most of them first."""
    words = [word for word in dict.fromkeys(words_of(query)) if len(word) >= GRAM]
    counts: dict[UUID, int] = {}
    for word in words[:16]:
        rule = Q(graph=graph, grams__contains=asked_grams(word), folded__contains=word)
        pks = set(Observation.objects.filter(rule, ended_at=None).values_list("entity", flat=True)[: 20 * limit])
        pks |= set(Entity.objects.filter(rule, deleted_at=None, is_placeholder=False).values_list("pk", flat=True))
        for pk in pks:
            counts[pk] = counts.get(pk, 0) + 1
    living = set(Entity.objects.filter(pk__in=list(counts), deleted_at=None).values_list("pk", flat=True))
    return sorted((pk for pk in counts if pk in living), key=lambda pk: (-counts[pk], pk))[:limit]


def _vector(query: str) -> tuple[list[float] | None, str]:
    try:
        return embedding.embed_one(query)[0], ""
    except embedding.EmbedderUnavailable as error:
        return None, f"{error}; results are by words alone"


def _metadata_shares(entities: Sequence[Entity]) -> dict[UUID, float]:
    rows = Observation.objects.filter(entity__in=list(entities), ended_at=None).order_by().values("entity")
    counted = rows.annotate(n=Count("pk"), meta=Count("pk", filter=Q(kind="metadata")))
    return {row["entity"]: row["meta"] / row["n"] for row in counted}
