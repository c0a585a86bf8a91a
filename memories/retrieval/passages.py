"""Passages: the windows of a memory's text that are embedded, so that every sentence of a long text can be found.

The packaged model reads at most 256 word pieces, and the vector of a long text represents none of its sentences well. A
short text is one passage. A longer text is cut between sentences, and a very long sentence is cut too. Adjacent
passages overlap by one sentence, unless the first of them has only one sentence. A passage stores offsets into the
text, not the text itself.
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

from foundation import embedding
from foundation.database import prepared_statements
from foundation.embedding import Tokens, Vectors
from memories.models import MemoryRecord, Passage, Tier
from memories.models.record import SPOKEN
from memories.retrieval.token_similarity import bits_of

MAX_WHOLE = 600  # maximum number of characters of a text that is not cut
# Maximum number of characters of a passage of a longer text. This is two or three sentences (bench/long_texts.py).
MAX_PASSAGE = 200
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+|(?<=[。！？])")


@dataclass(frozen=True)
class TextWindow:
    start: int
    stop: int


@dataclass(frozen=True)
class Encoded:
    windows: list[TextWindow]
    vectors: Vectors  # (windows, dimensions)
    tokens: list[Tokens] | None  # word pieces by window, if the model returns them


@dataclass(frozen=True)
class Stamped:
    passages: Encoded
    model: str


def windows_of(text: str) -> list[TextWindow]:
    """Split a text into windows, in order. Together they cover the whole text."""
    if len(text) <= MAX_WHOLE:
        return [TextWindow(0, len(text))]
    sentences = _sentences(text)
    windows: list[TextWindow] = []
    first = 0
    while first < len(sentences):
        last = first
        while last + 1 < len(sentences) and sentences[last + 1].stop - sentences[first].start <= MAX_PASSAGE:
            last += 1
        windows.append(TextWindow(sentences[first].start, sentences[last].stop))
        if last + 1 >= len(sentences):
            break
        first = last if last > first else last + 1  # overlap by one sentence, unless the window has only one
    return windows


def _sentences(text: str) -> list[TextWindow]:
    sentences: list[TextWindow] = []
    start = 0
    for stop in [*(match.end() for match in SENTENCE_END.finditer(text)), len(text)]:
        while stop - start > MAX_PASSAGE:  # cut a long sentence, if possible at a space
            space = text.rfind(" ", start + MAX_PASSAGE // 2, start + MAX_PASSAGE)
            cut = space + 1 if space > 0 else start + MAX_PASSAGE
            sentences.append(TextWindow(start, cut))
            start = cut
        if stop > start:
            sentences.append(TextWindow(start, stop))
        start = max(start, stop)
    return sentences


def encode(texts: Sequence[str], *, waiting: embedding.Waiting = embedding.Waiting.CALLER) -> tuple[list[Encoded], str]:
    """Encode all texts together; return the passages of each, and the model's name. Raises EmbedderUnavailable."""
    windows = [windows_of(text) for text in texts]
    flat = [text[w.start : w.stop] for text, parts in zip(texts, windows, strict=True) for w in parts]
    vectors, tokens, model = embedding.embed_tokens(flat, waiting=waiting)
    encoded = []
    start = 0
    for parts in windows:
        stop = start + len(parts)
        encoded.append(Encoded(parts, vectors[start:stop], tokens[start:stop] if tokens is not None else None))
        start = stop
    return encoded, model


def nearest_passages(ids: Sequence[UUID], vector: Sequence[float], model: str) -> dict[UUID, tuple[int, int]]:
    """Return the start and stop of each record's passage that is nearest to the question's vector, by record id.

    Records with vectors of another model are left out.
    """
    distance = CosineDistance("vector", list(vector))
    rows = Passage.objects.filter(record__in=ids, record__embedding_model=model)
    rows = rows.order_by("record_id", distance, "start").distinct("record_id")
    return {pk: (start, stop) for pk, start, stop in rows.values_list("record_id", "start", "stop")}


def rows_of(kind: type[Model], owner: str, units: Mapping[UUID, Encoded]) -> list[Model]:
    """Return unsaved rows of a table of passages. Its column `owner` refers to the row with the text."""
    return [
        kind(**{owner: pk, "start": window.start, "stop": window.stop, "vector": encoded.vectors[n]})
        for pk, encoded in units.items()
        for n, window in enumerate(encoded.windows)
    ]


def stamp_of(text: str, model: str) -> dict[str, Any]:
    """Return the fields of a record that identify the text and the model of its passages."""
    return {"embedding_model": model, "embedding_text_hash": embedding.text_hash(text)}


def keep(units: Mapping[UUID, Encoded], turns: Collection[UUID] = ()) -> None:
    """Insert the passages of records that have none. `turns` are the short-term records among them.

    The caller opens the transaction.
    """
    prepared_statements.insert(
        [p for pk, encoded in units.items() for p in _passages(pk, encoded, short_term=pk in turns)]
    )


def store(units: Mapping[UUID, tuple[str, Encoded]], model: str) -> set[UUID]:
    """Replace the passages of these records, except those whose text has changed meanwhile; return the replaced ids."""
    with transaction.atomic():
        updated = {pk for pk, (text, _) in units.items() if _stamp_if_unchanged(pk, text, model)}
        Passage.objects.filter(record__in=updated).delete()
        turns = MemoryRecord.objects.filter(pk__in=updated, tier=Tier.SHORT_TERM).values_list("pk", flat=True)
        keep({pk: units[pk][1] for pk in updated}, set(turns))
    return updated


def _stamp_if_unchanged(pk: UUID, text: str, model: str) -> bool:
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
