"""The protocol of embedding models."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from django.conf import settings

from foundation.lazy_numpy import np

if TYPE_CHECKING:
    import numpy.typing as npt  # takes 20 ms

Vectors: TypeAlias = "npt.NDArray[np.float32]"


MODELS_MISSING = "sentence-transformers is not installed: pip install 'commonplace[models]'"


class EmbedderUnavailable(Exception):
    """The model can't embed texts at present. The message explains the reason to users and operators."""


@dataclass(frozen=True)
class Tokens:
    """The word pieces of a text."""

    words: list[str]  # the word that each piece belongs to, in lower case
    states: Vectors  # hidden states, (pieces, dimensions)
    rarities: Vectors  # how rare each piece is in the language, (pieces,)


class Embedder(Protocol):
    name: str  # stored with each vector; vectors of different names are not comparable
    dimensions: int

    def embed(self, texts: Sequence[str], *, timeout_s: float, as_query: bool = False) -> Vectors:
        """Return float32 vectors of unit length, (len(texts), dimensions).

        Some models read a question (`as_query`) otherwise than the texts that answer it. Cosines of unrelated texts are
        around 0, and the thresholds of the product are on the scale of MiniLM's cosines.
        Raise EmbedderUnavailable on failure. `timeout_s` limits the wait for a model on another system.
        """
        ...


@runtime_checkable
class TokenEmbedder(Embedder, Protocol):
    """A model that also returns the word pieces of a text."""

    def embed_tokens(
        self, texts: Sequence[str], *, timeout_s: float, as_query: bool = False
    ) -> tuple[Vectors, list[Tokens]]: ...


def unit_length(vectors: Vectors) -> Vectors:
    """Return vectors scaled to unit length. Vectors of zeros stay as they are."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return units


def text_hash(text: str) -> bytes:
    """Return the SHA-256 stored with a text's vectors. If it no longer matches the text, the vectors are outdated."""
    return hashlib.sha256(text.encode()).digest()


class Waiting(Enum):
    """The party that waits for vectors. A caller has a short timeout, because recall also works without vectors."""

    CALLER = "caller"
    BATCH = "batch"

    @property
    def timeout_s(self) -> float:
        return float(settings.EMBEDDING_CALLER_TIMEOUT_S if self is Waiting.CALLER else settings.EMBEDDING_TIMEOUT_S)
