"""The protocol of embedding models."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from django.conf import settings

from memories.lazy_numpy import np

if TYPE_CHECKING:
    import numpy.typing as npt  # takes 20 ms

Vectors: TypeAlias = "npt.NDArray[np.float32]"


class EmbedderUnavailable(Exception):
    """No vector can be had now; the text says why, for people."""


@dataclass(frozen=True)
class Tokens:
    """The word pieces of a text: to which word each belongs (lower case), its hidden state (n, dimensions), and how
    rare it is in the language (n,)."""

    words: list[str]
    states: Vectors
    rarities: Vectors


class Embedder(Protocol):
    """`name` is stamped beside each vector; another name means other vectors."""

    name: str
    dimensions: int

    def embed(self, texts: Sequence[str], *, timeout_s: float) -> Vectors:
        """(len(texts), dimensions) float32, unit length. Raises EmbedderUnavailable, after `timeout_s` at the latest
        where it asks another system."""
        ...


@runtime_checkable
class TokenEmbedder(Embedder, Protocol):
    """A model that tells of its word pieces too."""

    def embed_tokens(self, texts: Sequence[str], *, timeout_s: float) -> tuple[Vectors, list[Tokens]]: ...


def text_hash(text: str) -> bytes:
    """SHA-256 of the embedded text: a vector whose hash no longer matches is a gap."""
    return hashlib.sha256(text.encode()).digest()


class Waiting(Enum):
    """Who waits for the vectors: a caller, who is told soon that there are none, or a worker's batch."""

    CALLER = "caller"
    BATCH = "batch"

    @property
    def timeout_s(self) -> float:
        return float(settings.EMBEDDING_CALLER_TIMEOUT_S if self is Waiting.CALLER else settings.EMBEDDING_TIMEOUT_S)
