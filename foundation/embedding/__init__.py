from __future__ import annotations

from foundation.embedding.interface import Embedder, EmbedderUnavailable, Tokens, Vectors, Waiting, text_hash
from foundation.embedding.model import current, embed, embed_one, embed_tokens, make_embedder, reset, state, warm_up

__all__ = [
    "Embedder",
    "EmbedderUnavailable",
    "Tokens",
    "Vectors",
    "Waiting",
    "current",
    "embed",
    "embed_one",
    "embed_tokens",
    "make_embedder",
    "reset",
    "state",
    "text_hash",
    "warm_up",
]
