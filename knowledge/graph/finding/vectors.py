"""Observations by their meaning: passages of the product's, kept beside the observations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, TextField, Value
from django.db.models.functions import Concat

from knowledge.graph.models import Entity, Observation, ObservationPassage
from memories import embedding
from memories.embedding import Vectors
from memories.models.index_job import Trigger
from memories.retrieval import indexing, passages

KIND = "observation"
FLAG_COSINE, FLAG_CONTAINMENT, FLAG_RATIO = 0.85, 0.7, 2.0  # the contract's, of similarity_flag
SPOKEN = Concat("entity__name", Value(": "), "text", output_field=TextField())


def index_soon(entities: Iterable[Entity], *, flags: bool = False) -> None:
    """Gives new observations of these entities their vectors; without embedder a job is left for each."""
    rows = Observation.objects.filter(entity__in=[e.pk for e in entities], ended_at=None, embedding_text_hash=None)
    texts = dict(rows.values_list("pk", SPOKEN))
    if not texts:
        return
    try:
        indexing.index(KIND, texts)
    except embedding.EmbedderUnavailable:
        indexing.enqueue(KIND, texts, Trigger.WRITE)
        return
    if flags:
        _flag(texts)


def index_observations(texts: Mapping[UUID, str], waiting: embedding.Waiting) -> dict[UUID, Vectors]:
    encoded, model = passages.encode(list(texts.values()), waiting=waiting)
    with transaction.atomic():
        ObservationPassage.objects.filter(observation__in=texts).delete()
        ObservationPassage.objects.bulk_create(
            ObservationPassage(observation_id=pk, start=window.start, stop=window.stop, vector=part.vectors[n])
            for pk, part in zip(texts, encoded, strict=True)
            for n, window in enumerate(part.windows)
        )
        for pk, text in texts.items():
            row = Observation.objects.filter(pk=pk)
            row.update(embedding_model=model, embedding_text_hash=embedding.text_hash(text))
    return {pk: part.vectors for pk, part in zip(texts, encoded, strict=True)}


SOURCE = indexing.VectorSource(
    KIND,
    lambda: Observation.objects.filter(ended_at=None, entity__deleted_at=None),
    SPOKEN,
    vectors=ObservationPassage,
    vector_column="vector",
    missing=Q(~Exists(ObservationPassage.objects.filter(observation=OuterRef("pk")))),
    index=index_observations,
)


def containment(first: str, second: str) -> float:
    """The share of the shorter text's words that the longer has, 0 to 1."""
    short, long = sorted((set(_words(first)), set(_words(second))), key=len)
    return len(short & long) / len(short) if short else 1.0


def is_asymmetric(first: str, second: str) -> bool:
    short, long = sorted((len(first), len(second)))
    return short > 0 and long / short >= FLAG_RATIO


def _words(text: str) -> list[str]:
    return [word for word in (part.strip(".,;:!?\"'()[]{}") for part in text.casefold().split()) if word]


def _flag(pks: Iterable[UUID]) -> None:
    """Marks new observations that nearly say what their entity has already; they are kept all the same."""
    for row in Observation.objects.filter(pk__in=list(pks)).select_related("entity"):
        vector = ObservationPassage.objects.filter(observation=row).values_list("vector", flat=True).first()
        earlier = Observation.objects.filter(entity=row.entity, ended_at=None, number__lt=row.number)
        if vector is None or not earlier.exists():
            continue
        near = nearest(earlier.values("pk"), list(vector))
        if near and (
            near[1] >= FLAG_COSINE
            or (is_asymmetric(row.text, near[0].text) and containment(row.text, near[0].text) >= FLAG_CONTAINMENT)
        ):
            Observation.objects.filter(pk=row.pk).update(similarity_flag=True)


def nearest(pks: Any, vector: list[float]) -> tuple[Observation, float] | None:
    from pgvector.django import CosineDistance  # noqa: PLC0415 - with numpy, only where vectors are

    rows = ObservationPassage.objects.filter(observation__in=pks).annotate(
        distance=CosineDistance("vector", vector) + 0.0
    )
    best = rows.order_by("distance").select_related("observation").first()
    return (best.observation, 1 - best.distance) if best else None
