"""Embeddings of observations, stored as passages, and the flag of observations that nearly repeat another one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db.models import Min, QuerySet, TextField, Value
from django.db.models.functions import Concat

from foundation import embedding
from foundation.database import prepared_statements
from foundation.embedding import Vectors
from knowledge.graph.models import Entity, Observation, ObservationPassage
from memories.models.index_job import Trigger
from memories.retrieval import indexing, passages
from memories.texts.comparison import is_same_fact

KIND = "observation"
PASSAGES = (ObservationPassage, "observation_id")  # the table, and its column that refers to the observation
MAX_ENCODED_AT_ONCE = 10  # a write with more new texts leaves them to a worker, because embedding takes longest
FLAG_COSINE, FLAG_CONTAINMENT, FLAG_RATIO = 0.85, 0.7, 2.0  # thresholds of similarity_flag, from the contract
EMBEDDED_TEXT = Concat("entity__name", Value(": "), "text", output_field=TextField())


@dataclass(frozen=True)
class Encodings:
    """Encoded passages by embedded text. There are none if a worker has to compute them later."""

    by_text: Mapping[str, passages.Encoded]
    model: str = ""


def embedded_text(name: str, text: str) -> str:
    """Return the text that is embedded for an observation. It has to equal EMBEDDED_TEXT, its SQL form."""
    return f"{name}: {text}"


def encode(texts: Iterable[str]) -> Encodings:
    """Encode texts into passages. Call it before the transaction, so that the graph isn't locked meanwhile.

    Encodes nothing if there are more texts than MAX_ENCODED_AT_ONCE, or if the embedder is unavailable.
    """
    unique = list(dict.fromkeys(texts))
    if len(unique) > MAX_ENCODED_AT_ONCE:
        return Encodings({})
    try:
        encoded, model = passages.encode(unique) if unique else ([], "")
    except embedding.EmbedderUnavailable:
        return Encodings({})
    return Encodings(dict(zip(unique, encoded, strict=True)), model)


def save(rows: Sequence[Observation], encodings: Encodings) -> None:
    """Insert new observations and their passages. Queue the observations without encoded passages for a worker."""
    parts = {row.pk: encodings.by_text.get(embedded_text(row.entity.name, row.text)) for row in rows}
    for row in rows:
        if parts[row.pk]:
            row.embedding_model = encodings.model
            row.embedding_text_hash = embedding.text_hash(embedded_text(row.entity.name, row.text))
    prepared_statements.insert(rows)
    prepared_statements.insert(passages.rows_of(*PASSAGES, {pk: part for pk, part in parts.items() if part}))
    if unencoded := [pk for pk, part in parts.items() if part is None]:
        indexing.enqueue(KIND, unencoded, Trigger.WRITE)


def index_missing(entities: Iterable[Entity]) -> None:
    """Embed the observations of these entities that have no embedding.

    If the embedder is unavailable, these observations are queued for a worker.
    """
    rows = Observation.objects.filter(entity__in=[e.pk for e in entities], ended_at=None, embedding_text_hash=None)
    texts = dict(rows.values_list("pk", EMBEDDED_TEXT))
    if not texts:
        return
    try:
        indexing.index(KIND, texts)
    except embedding.EmbedderUnavailable:
        indexing.enqueue(KIND, texts, Trigger.WRITE)


BASE_SOURCE = indexing.passage_source(
    KIND, lambda: Observation.objects.filter(ended_at=None, entity__deleted_at=None), EMBEDDED_TEXT, *PASSAGES
)


def _index(texts: Mapping[UUID, str], waiting: embedding.Waiting) -> dict[UUID, Vectors]:
    saved = BASE_SOURCE.index(texts, waiting)
    flag_due(saved)
    return saved


SOURCE = replace(BASE_SOURCE, index=_index)


def containment(first: str, second: str) -> float:
    """Return the share of the shorter text's words that the longer text contains, from 0 to 1."""
    short, long = sorted((set(_words(first)), set(_words(second))), key=len)
    return len(short & long) / len(short) if short else 1.0


def is_asymmetric(first: str, second: str) -> bool:
    """Return whether one text is at least FLAG_RATIO times as long as the other."""
    short, long = sorted((len(first), len(second)))
    return short > 0 and long / short >= FLAG_RATIO


def _words(text: str) -> list[str]:
    return [word for word in (part.strip(".,;:!?\"'()[]{}") for part in text.casefold().split()) if word]


def flag(rows: Sequence[Observation]) -> None:
    """Set similarity_flag on new observations that nearly repeat an earlier one of their entity.

    If this one or an earlier one has no embedding yet, only their words are compared, and the observation is marked for
    flag_due().
    """
    gaps = _first_gaps({row.entity_id for row in rows})
    passages_of = ObservationPassage.objects.filter(observation__in=list(rows), start=0)
    vector_of = dict(passages_of.values_list("observation", "vector"))
    for row in rows:
        is_due = row.number >= gaps.get(row.entity_id, row.number + 1)
        earlier = Observation.objects.filter(entity=row.entity_id, ended_at=None, number__lt=row.number)
        if is_due:
            words = _words(row.text)
            is_similar = any(_words(text) == words for text in earlier.values_list("text", flat=True))
        else:
            is_similar = _is_near_one_of(earlier, row, vector_of.get(row.pk))
        if is_similar or is_due != row.is_flag_due:
            flags = {"is_flag_due": is_due, **({"similarity_flag": True} if is_similar else {})}
            Observation.objects.filter(pk=row.pk).update(**flags)


def flag_due(pks: Iterable[UUID]) -> None:
    """Compare the marked observations of the entities of these observations, which have just been embedded."""
    entities = Observation.objects.filter(pk__in=list(pks)).values("entity")
    flag(list(Observation.objects.filter(entity__in=entities, is_flag_due=True, ended_at=None).order_by("number")))


def _first_gaps(entities: Collection[UUID]) -> dict[UUID, int]:
    """Return the number of the first observation without an embedding, for each of these entities that has one."""
    rows = Observation.objects.filter(entity__in=entities, ended_at=None, embedding_text_hash=None)
    return dict(rows.order_by().values_list("entity").annotate(first=Min("number")))


def _is_near_one_of(earlier: QuerySet[Observation], row: Observation, vector: list[float] | None) -> bool:
    nearest = nearest_observation(earlier.values("pk"), vector) if vector is not None else None
    if nearest is None:
        return False
    similar, cosine = nearest
    is_contained = is_asymmetric(row.text, similar.text) and containment(row.text, similar.text) >= FLAG_CONTAINMENT
    return (cosine >= FLAG_COSINE or is_contained) and is_same_fact(row.text, similar.text)


def nearest_observation(pks: Any, vector: list[float]) -> tuple[Observation, float] | None:
    """Return the observation nearest to the vector and its cosine, or None if none of them has a passage."""
    from pgvector.django import CosineDistance  # noqa: PLC0415 - it imports numpy, which few calls need

    rows = ObservationPassage.objects.filter(observation__in=pks).annotate(
        distance=CosineDistance("vector", vector) + 0.0
    )
    best = rows.order_by("distance").select_related("observation").first()
    return (best.observation, 1 - best.distance) if best else None
