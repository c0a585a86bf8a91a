"""A memory's text as passages, so that a sentence is found by meaning wherever it stands.

The packaged model reads 256 word pieces, and a vector of much text says little of any sentence. A short text is one
passage; a longer one is cut at the ends of sentences, neighbours overlapping by one sentence. A passage keeps offsets,
never text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Model
from pgvector.django import CosineDistance

from memories import embedding
from memories.database import prepared_statements
from memories.embedding import Tokens, Vectors
from memories.models import MemoryRecord, Passage, Tier
from memories.models.record import SPOKEN
from memories.retrieval.token_similarity import bits_of

MAX_WHOLE = 600  # characters of a text that stays one passage
MAX_PASSAGE = 200  # characters of a passage of a longer one: two or three sentences (bench/long_texts.py)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+|(?<=[。！？])")


@dataclass(frozen=True)
class Window:
    start: int
    stop: int


@dataclass(frozen=True)
class Encoded:
    """A text's windows, their vectors (windows, dimensions), and their word pieces where the model tells."""

    windows: list[Window]
    vectors: Vectors
    tokens: list[Tokens] | None


@dataclass(frozen=True)
class Stamped:
    """A text's passages with the model that made them."""

    passages: Encoded
    model: str


def windows_of(text: str) -> list[Window]:
    """The passages of a text, in order; together they cover it."""
    if len(text) <= MAX_WHOLE:
        return [Window(0, len(text))]
    sentences = _sentences(text)
    windows: list[Window] = []
    first = 0
    while first < len(sentences):
        last = first
        while last + 1 < len(sentences) and sentences[last + 1].stop - sentences[first].start <= MAX_PASSAGE:
            last += 1
        windows.append(Window(sentences[first].start, sentences[last].stop))
        if last + 1 >= len(sentences):
            break
        first = last if last > first else last + 1
    return windows


def _sentences(text: str) -> list[Window]:
    """Its sentences; one that is longer than a passage is cut at a space."""
    sentences: list[Window] = []
    start = 0
    for stop in [*(match.end() for match in SENTENCE_END.finditer(text)), len(text)]:
        while stop - start > MAX_PASSAGE:
            space = text.rfind(" ", start + MAX_PASSAGE // 2, start + MAX_PASSAGE)
            cut = space + 1 if space > 0 else start + MAX_PASSAGE
            sentences.append(Window(start, cut))
            start = cut
        if stop > start:
            sentences.append(Window(start, stop))
        start = max(start, stop)
    return sentences


def encode(texts: Sequence[str], *, waiting: embedding.Waiting = embedding.Waiting.CALLER) -> tuple[list[Encoded], str]:
    """Each text's passages, all in one go, and the model's name. Raises EmbedderUnavailable."""
    windows = [windows_of(text) for text in texts]
    flat = [text[w.start : w.stop] for text, parts in zip(texts, windows, strict=True) for w in parts]
    vectors, tokens, model = embedding.embed_tokens(flat, waiting=waiting)
    answers, start = [], 0
    for parts in windows:
        stop = start + len(parts)
        answers.append(Encoded(parts, vectors[start:stop], tokens[start:stop] if tokens is not None else None))
        start = stop
    return answers, model


def nearest_passages(ids: Sequence[UUID], vector: Sequence[float]) -> dict[UUID, tuple[int, int]]:
    """From and to of the passage of each record that is nearest to a question."""
    distance = CosineDistance("vector", list(vector))
    rows = Passage.objects.filter(record__in=ids).order_by("record_id", distance, "start").distinct("record_id")
    return {pk: (start, stop) for pk, start, stop in rows.values_list("record_id", "start", "stop")}


def rows_of(kind: type[Model], owner: str, units: Mapping[UUID, Encoded]) -> list[Model]:
    """New rows of a table of passages; `owner` is its column that names whose text it is."""
    return [
        kind(**{owner: pk, "start": window.start, "stop": window.stop, "vector": encoded.vectors[n]})
        for pk, encoded in units.items()
        for n, window in enumerate(encoded.windows)
    ]


def stamp_of(text: str, model: str) -> dict[str, Any]:
    """What a record keeps of the passages that it has."""
    return {"embedding_model": model, "embedding_text_hash": embedding.text_hash(text)}


def keep(units: Mapping[UUID, Encoded], turns: Collection[UUID] = ()) -> None:
    """Writes the passages of records that have none, inside the caller's transaction; `turns` are short-term."""
    prepared_statements.insert(
        [p for pk, encoded in units.items() for p in _passages(pk, encoded, short_term=pk in turns)]
    )


def store(units: Mapping[UUID, tuple[str, Encoded]], model: str) -> set[UUID]:
    """Keeps the passages of these records, unless a text has changed meanwhile; returns the records that have them."""
    with transaction.atomic():
        units_now = {pk for pk, (text, _) in units.items() if _stamp(pk, text, model)}
        Passage.objects.filter(record__in=units_now).delete()
        turns = MemoryRecord.objects.filter(pk__in=units_now, tier=Tier.SHORT_TERM).values_list("pk", flat=True)
        keep({pk: units[pk][1] for pk in units_now}, set(turns))
    return units_now


def _stamp(pk: UUID, text: str, model: str) -> bool:
    row = MemoryRecord.objects.alias(said=SPOKEN).filter(pk=pk, said=text)
    return bool(row.update(**stamp_of(text, model)))


def _passages(pk: UUID, encoded: Encoded, *, short_term: bool) -> list[Passage]:
    return [
        Passage(
            record_id=pk,
            start=window.start,
            stop=window.stop,
            vector=encoded.vectors[n],
            short_term=short_term,
            token_bits=bits_of(encoded.tokens[n]) if encoded.tokens is not None else None,
        )
        for n, window in enumerate(encoded.windows)
    ]
