from __future__ import annotations

from foundation.embedding.interface import Embedder, EmbedderUnavailable, Tokens, Vectors, Waiting, text_hash
from foundation.embedding.model import (
    current,
    embed,
    embed_query,
    embed_tokens,
    make_embedder,
    question_slope,
    reset,
    state,
    uncalibrated,
    warm_up,
)

__all__ = [
    "Embedder",
    "EmbedderUnavailable",
    "Tokens",
    "Vectors",
    "Waiting",
    "current",
    "embed",
    "embed_query",
    "embed_tokens",
    "make_embedder",
    "question_slope",
    "reset",
    "state",
    "text_hash",
    "uncalibrated",
    "warm_up",
]
