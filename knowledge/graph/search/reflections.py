"""Creation and search of reflections (prose about an entity, a relation, a session or the graph)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import F, Q
from pgvector.django import CosineDistance

from foundation import embedding
from foundation.embedding import Vectors
from foundation.operations.errors import Invalid, NotFound, check_choice
from foundation.people.caller import Caller
from knowledge.graph import graphs, names
from knowledge.graph.models import Entity, Graph, Reflection, Relation
from knowledge.graph.operations import TARGETS, AddReflection, SearchReflections
from knowledge.graph.search.trigrams import words_of
from memories.models.index_job import Trigger
from memories.retrieval import indexing
from memories.retrieval.rank_fusion import fuse

KIND = "reflection"
CANDIDATES = 3  # number of candidates from each ranked list, as a multiple of the limit


@dataclass(frozen=True)
class ReflectionMatch:
    reflection: Reflection
    score: float


def add_reflection(caller: Caller, operation: AddReflection) -> Reflection:
    """Store a reflection. Its writer is the caller, who may name somebody else as the author of the words.

    Raises Invalid if the target type is unknown, or if the target doesn't fit its type. Raises NotFound if the target
    doesn't exist.
    """
    check_choice("target_type", operation.target_type, TARGETS)
    with graphs.locked_graph(caller) as graph:
        reflection = Reflection.objects.create(
            graph=graph,
            number=graphs.take_number(graph),
            target_type=operation.target_type,
            author=operation.author,
            created_by=caller.email,
            mood=operation.mood or "",
            content=operation.content,
            **_target(graph, operation),
        )
    try:
        indexing.index(KIND, {reflection.pk: reflection.content})
    except embedding.EmbedderUnavailable:
        indexing.enqueue(KIND, [reflection.pk], Trigger.WRITE)
    return reflection


def search_reflections(caller: Caller, operation: SearchReflections) -> tuple[list[ReflectionMatch], str]:
    """Search by meaning and words. Returns the best matches and a note on what is degraded."""
    if operation.target_type:
        check_choice("target_type", operation.target_type, TARGETS)
    graph = graphs.graph_of(caller)
    if graph is None:
        return [], ""
    rows = Reflection.objects.filter(graph=graph)
    filters = {"mood__iexact": operation.mood, "target_type": operation.target_type}
    rows = rows.filter(**{name: value for name, value in filters.items() if value})
    if operation.author:
        rows = rows.filter(Q(author__iexact=operation.author) | Q(created_by__iexact=operation.author))
    limit = CANDIDATES * operation.limit
    note = ""
    arms: list[list[UUID]] = []
    cosines: dict[UUID, float] = {}
    try:
        vector, model = embedding.embed_query(operation.query)
    except embedding.EmbedderUnavailable as error:
        note = f"{error}; results are by words only"
    else:
        nearest = rows.filter(embedding_model=model).annotate(distance=CosineDistance("vector", vector) + 0.0)
        distances = nearest.order_by("distance").values_list("pk", "distance")[:limit]
        cosines = {pk: embedding.question_slope() * (1 - distance) for pk, distance in distances}
        arms.append(list(cosines))
    arms.append(_by_words(rows, operation.query, limit))
    fused = fuse(arms)
    reflections = rows.defer("vector").select_related("entity", "relation").in_bulk(list(fused))
    best = max(fused.values(), default=1.0)
    matches = [
        ReflectionMatch(reflections[pk], _score(cosines.get(pk), fused[pk] / best)) for pk in fused if pk in reflections
    ]
    matches.sort(key=lambda match: (-match.score, -match.reflection.number))
    return matches[: operation.limit], note


def index_reflections(texts: Mapping[UUID, str], waiting: embedding.Waiting) -> dict[UUID, Vectors]:
    vectors, model = embedding.embed(list(texts.values()), waiting=waiting)
    saved: dict[UUID, Vectors] = {}
    for position, (pk, text) in enumerate(texts.items()):
        row = Reflection.objects.filter(pk=pk, content=text)
        stamp = {"embedding_model": model, "embedding_text_hash": embedding.text_hash(text)}
        if row.update(vector=vectors[position], **stamp):
            saved[pk] = vectors[position : position + 1]
    return saved


SOURCE = indexing.VectorSource(
    KIND,
    Reflection.objects.all,
    F("content"),
    vectors=Reflection,
    vector_column="vector",
    has_vectors=Q(vector__isnull=False),
    index=index_reflections,
)


def _score(cosine: float | None, rrf: float) -> float:
    return 0.5 * max(cosine or 0.0, 0.0) + 0.5 * rrf


def _by_words(rows: Any, query: str, limit: int) -> list[UUID]:
    words = [word for word in dict.fromkeys(words_of(query)) if len(word) > 2][:16]
    rule = Q()
    for word in words:
        rule |= Q(content__icontains=word)
    ranked = [
        (-sum(word in content.casefold() for word in words), pk)
        for pk, content in (rows.filter(rule).values_list("pk", "content")[:1_000] if words else [])
    ]
    return [pk for _, pk in sorted(ranked)[:limit]]


def _target(graph: Graph, operation: AddReflection) -> dict[str, Any]:
    kind = operation.target_type
    number = operation.target_id
    name = operation.entity_name
    if kind in ("session", "global"):
        if number or name:
            raise Invalid(f"is not accepted for target_type {kind}", field="target_id", allowed="no target")
        return {}
    if name and (number or kind == "relation"):
        raise Invalid("contradicts target_id" if number else "is not accepted for a relation", field="entity_name")
    if kind == "entity":
        rows = Entity.objects.filter(graph=graph, deleted_at=None, is_placeholder=False)
        entity = names.find_one(graph, name) if name else rows.filter(number=number or 0).first()
        if not number and not name:
            raise Invalid("is missing", field="target_id", allowed="the id of the entity, or entity_name")
        if entity is None:
            raise NotFound(f"Entity not found: {name or number}")
        return {"entity": entity}
    if not number:
        raise Invalid("is missing", field="target_id", allowed="the id of the relation")
    relation = Relation.objects.filter(graph=graph, number=number).first()
    if relation is None:
        raise NotFound(f"Relation not found: {number}")
    return {"relation": relation}
