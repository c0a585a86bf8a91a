"""Observations by their meaning: passages of the product's, kept beside the observations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import TextField, Value
from django.db.models.functions import Concat

from knowledge.graph.models import Entity, Observation, ObservationPassage
from memories import embedding
from memories.database import prepared_statements
from memories.models.index_job import Trigger
from memories.retrieval import indexing, passages

KIND = "observation"
OF = (ObservationPassage, "observation_id")
FLAG_COSINE, FLAG_CONTAINMENT, FLAG_RATIO = 0.85, 0.7, 2.0  # the contract's, of similarity_flag
SPOKEN = Concat("entity__name", Value(": "), "text", output_field=TextField())


@dataclass(frozen=True)
class Encodings:
    """The passages of texts as they are spoken; none while the embedder is away."""

    of: Mapping[str, passages.Encoded]
    model: str = ""


def spoken(name: str, text: str) -> str:
    """What is embedded of an observation; SPOKEN says the same to PostgreSQL."""
    return f"{name}: {text}"


def encode(texts: Iterable[str]) -> Encodings:
    """Before the transaction that needs them."""
    unique = list(dict.fromkeys(texts))
    try:
        encoded, model = passages.encode(unique) if unique else ([], "")
    except embedding.EmbedderUnavailable:
        return Encodings({})
    return Encodings(dict(zip(unique, encoded, strict=True)), model)


def save(rows: Sequence[Observation], encodings: Encodings) -> None:
    """Saves new observations with their passages; a job is left for one that has none."""
    parts = {row.pk: encodings.of.get(spoken(row.entity.name, row.text)) for row in rows}
    for row in rows:
        if parts[row.pk]:
            row.embedding_model = encodings.model
            row.embedding_text_hash = embedding.text_hash(spoken(row.entity.name, row.text))
    prepared_statements.insert(rows)
    prepared_statements.insert(passages.rows_of(*OF, {pk: part for pk, part in parts.items() if part}))
    if unencoded := [pk for pk, part in parts.items() if part is None]:
        indexing.enqueue(KIND, unencoded, Trigger.WRITE)


def index_soon(entities: Iterable[Entity]) -> None:
    """Gives the observations of these entities the vectors that they lack; without embedder a job is left for each."""
    rows = Observation.objects.filter(entity__in=[e.pk for e in entities], ended_at=None, embedding_text_hash=None)
    texts = dict(rows.values_list("pk", SPOKEN))
    if not texts:
        return
    try:
        indexing.index(KIND, texts)
    except embedding.EmbedderUnavailable:
        indexing.enqueue(KIND, texts, Trigger.WRITE)


SOURCE = indexing.passage_source(
    KIND, lambda: Observation.objects.filter(ended_at=None, entity__deleted_at=None), SPOKEN, *OF
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


def flag(rows: Sequence[Observation], encodings: Encodings) -> None:
    """Marks new observations that nearly say what their entity has already; they are kept all the same."""
    for row in rows:
        part = encodings.of.get(spoken(row.entity.name, row.text))
        earlier = Observation.objects.filter(entity=row.entity, ended_at=None, number__lt=row.number)
        near = nearest_observation(earlier.values("pk"), part.vectors[0].tolist()) if part else None
        if near and (
            near[1] >= FLAG_COSINE
            or (is_asymmetric(row.text, near[0].text) and containment(row.text, near[0].text) >= FLAG_CONTAINMENT)
        ):
            Observation.objects.filter(pk=row.pk).update(similarity_flag=True)


def nearest_observation(pks: Any, vector: list[float]) -> tuple[Observation, float] | None:
    from pgvector.django import CosineDistance  # noqa: PLC0415 - with numpy, only where vectors are

    rows = ObservationPassage.objects.filter(observation__in=pks).annotate(
        distance=CosineDistance("vector", vector) + 0.0
    )
    best = rows.order_by("distance").select_related("observation").first()
    return (best.observation, 1 - best.distance) if best else None
