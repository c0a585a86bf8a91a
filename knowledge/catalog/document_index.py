"""Documents and glossary terms of the embedded catalog and of the copy, found by what they mean: the product's passages
over their texts. Derived: the rows follow the entities, a worker makes the vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import QuerySet, TextField, Value
from django.db.models.functions import Concat
from pgvector.django import CosineDistance

from knowledge.catalog.interface import entity_type
from knowledge.models import CatalogEntity, CatalogPassage, CatalogText
from memories import embedding
from memories.models.index_job import Trigger
from memories.retrieval import indexing

KIND = "catalog text"
TYPES = ("document", "glossaryTerm")  # what people write as prose
MIN_COSINE = 0.15  # below it, more is by chance than not
# As good as a match of words. Of 53 questions in other words 50 reach it with their paragraph of documentation; of 400
# about other things 17 with any of 3,477 paragraphs.
COSINE_SURE = 0.32
PASSAGES = 8  # nearest ones looked at for each text wanted: several may be of one text
COLON = ": "
SPOKEN = Concat("entity__name", Value(COLON), "entity__description", output_field=TextField())

SOURCE = indexing.passage_source(
    KIND, lambda: CatalogText.objects.filter(entity__removed=False), SPOKEN, CatalogPassage, "text_id"
)


@dataclass(frozen=True)
class Near:
    """An entity, the passage of its text that is nearest to a question, and the cosine of the two."""

    entity: CatalogEntity
    passage: str
    cosine: float


def follow(urns: Sequence[str]) -> None:
    """After these entities have changed: a row for each that has a text now, and a job where the vectors are not of
    that text. Inside the transaction of the change."""
    urns = [urn for urn in urns if entity_type(urn) in TYPES]
    if not urns:
        return
    entities = CatalogEntity.objects.filter(urn__in=urns).exclude(description="")
    with_text = list(entities.values_list("urn", flat=True))
    CatalogText.objects.filter(entity__in=urns).exclude(entity__in=with_text).delete()
    CatalogText.objects.bulk_create([CatalogText(entity_id=urn) for urn in with_text], ignore_conflicts=True)
    rows = SOURCE.rows().filter(entity__in=with_text).values_list("pk", SPOKEN, "embedding_text_hash")
    changed = [pk for pk, text, digest in rows if digest is None or bytes(digest) != embedding.text_hash(text)]
    indexing.enqueue(KIND, changed, Trigger.WRITE)


def exist(types: Sequence[str]) -> bool:
    """Whether there is a text of these types, of any where none is named."""
    return _texts(types).exists()


def nearest_documents(vector: Sequence[float], types: Sequence[str], limit: int) -> list[Near]:
    """Entities whose text has a passage of cosine ≥ MIN_COSINE to the question, the best first."""
    distance = CosineDistance("vector", list(vector)) + 0.0
    near = CatalogPassage.objects.filter(text__in=_texts(types)).annotate(distance=distance)
    near = near.filter(distance__lte=1 - MIN_COSINE).order_by("distance", "pk")
    best: dict[UUID, tuple[int, int, float]] = {}
    for pk, *passage in near.values_list("text", "start", "stop", "distance")[: PASSAGES * limit]:
        best.setdefault(pk, tuple(passage))
    prose = CatalogText.objects.select_related("entity").in_bulk(list(best)[:limit])
    return [
        Near(prose[pk].entity, _quoted(prose[pk].entity, start, stop), 1 - distance)
        for pk, (start, stop, distance) in best.items()
        if pk in prose
    ]


def _quoted(entity: CatalogEntity, start: int, stop: int) -> str:
    """Without the name, which is spoken before the text."""
    before = len(entity.name) + len(COLON)
    return entity.description[max(start - before, 0) : max(stop - before, 0)].strip()


def _texts(types: Sequence[str]) -> QuerySet[CatalogText]:
    return SOURCE.rows().filter(entity__entity_type__in=types) if types else SOURCE.rows()
