"""Semantic search index of documents and glossary terms, in the embedded catalog or in the copy of DataHub.

The index is derived data: an entity with a description has one row, and a worker embeds the passages of its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import QuerySet, TextField, Value
from django.db.models.functions import Concat
from pgvector.django import CosineDistance

from foundation import embedding
from knowledge.catalog.interface import entity_type
from knowledge.models import CatalogEntity, CatalogPassage, CatalogText
from memories.models.index_job import Trigger
from memories.retrieval import indexing

KIND = "catalog text"
TYPES = ("document", "glossaryTerm")  # entity types whose texts are indexed
MIN_COSINE = 0.15  # minimum cosine of a match; below it, most matches are due to chance
# A match with at least this cosine counts as much as a match by words. Measured: 50 of 53 paraphrased questions reach
# it with the paragraph that answers them, but only 17 of 400 unrelated questions reach it with any of 3,477 paragraphs.
COSINE_SURE = 0.32
PASSAGES_PER_TEXT = 8  # passages fetched per wanted text, because the nearest ones may belong to the same text
SEPARATOR = ": "
EMBEDDED_TEXT = Concat("entity__name", Value(SEPARATOR), "entity__description", output_field=TextField())

SOURCE = indexing.passage_source(
    KIND, lambda: CatalogText.objects.filter(entity__removed=False), EMBEDDED_TEXT, CatalogPassage, "text_id"
)


@dataclass(frozen=True)
class DocumentMatch:
    """An entity, the passage of its text that is nearest to a query, and the cosine of passage and query."""

    entity: CatalogEntity
    passage: str
    cosine: float


def update_rows(urns: Sequence[str]) -> None:
    """Create or delete the index rows of changed entities, and queue the embedding of new and changed texts.

    Call it inside the transaction of the change.
    """
    urns = [urn for urn in urns if entity_type(urn) in TYPES]
    if not urns:
        return
    entities = CatalogEntity.objects.filter(urn__in=urns).exclude(description="")
    with_text = list(entities.values_list("urn", flat=True))
    CatalogText.objects.filter(entity__in=urns).exclude(entity__in=with_text).delete()
    CatalogText.objects.bulk_create([CatalogText(entity_id=urn) for urn in with_text], ignore_conflicts=True)
    rows = SOURCE.rows().filter(entity__in=with_text).values_list("pk", EMBEDDED_TEXT, "embedding_text_hash")
    changed = [pk for pk, text, digest in rows if digest is None or bytes(digest) != embedding.text_hash(text)]
    indexing.enqueue(KIND, changed, Trigger.WRITE)


def has_texts(types: Sequence[str]) -> bool:
    """Return whether an entity of one of these types has a text to search. If `types` is empty, any type counts."""
    return _texts(types).exists()


def nearest_documents(vector: Sequence[float], model: str, types: Sequence[str], limit: int) -> list[DocumentMatch]:
    """Return at most `limit` entities that have a passage with cosine ≥ MIN_COSINE to the query, best first."""
    distance = CosineDistance("vector", list(vector)) + 0.0
    passages = CatalogPassage.objects.filter(text__in=_texts(types).filter(embedding_model=model)).annotate(
        distance=distance
    )
    passages = passages.filter(distance__lte=1 - MIN_COSINE / embedding.question_slope()).order_by("distance", "pk")
    best: dict[UUID, tuple[int, int, float]] = {}
    for pk, *passage in passages.values_list("text", "start", "stop", "distance")[: PASSAGES_PER_TEXT * limit]:
        best.setdefault(pk, tuple(passage))
    texts = CatalogText.objects.select_related("entity").in_bulk(list(best)[:limit])
    return [
        DocumentMatch(texts[pk].entity, _passage(texts[pk].entity, start, stop), 1 - distance)
        for pk, (start, stop, distance) in best.items()
        if pk in texts
    ]


def _passage(entity: CatalogEntity, start: int, stop: int) -> str:
    prefix = len(entity.name) + len(SEPARATOR)  # the offsets refer to EMBEDDED_TEXT, which starts with the name
    return entity.description[max(start - prefix, 0) : max(stop - prefix, 0)].strip()


def _texts(types: Sequence[str]) -> QuerySet[CatalogText]:
    return SOURCE.rows().filter(entity__entity_type__in=types) if types else SOURCE.rows()
