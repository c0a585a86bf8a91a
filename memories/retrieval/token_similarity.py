"""Similarity between the word pieces of a question and those of a memory, computed from stored sign bits.

A memory stores the signs of the hidden states of its word pieces, one bit per dimension: 48 bytes per piece for a model
with 384 dimensions. If q has unit length and the n entries of d are independent and normal, q·sign(d)·√(π/2/n)
estimates the cosine of q and d (signs: Charikar 2002; the factor inverts √(2/π), the mean of |x| for normal x).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from foundation.embedding import Tokens, Vectors
from foundation.lazy_numpy import np

STOP_WORD_IDF = 0.6  # assumed idf of a word without one, such as a stop word
STATIC_SHARE = 0.5  # the part of a piece's weight that comes from its rarity in the language, not from the idf
# English stop words. No bits are stored for them, because they occur in most texts and are similar to all other words.
COMMON = """
    a about above after again all also am an and any are as at be because been before being below between both
    but by can could did do does doing down during each few for from further had has have having he her here
    hers him his how i if in into is it its just me more most my no nor not now of off on once only or other our
    ours out over own same she should so some such than that the their theirs them then there these they this
    those through to too under until up very was we were what when where which while who whom why will with
    would you your yours s t d ll m re ve
"""
STOP_WORDS = frozenset(COMMON.split())


def bits_of(tokens: Tokens) -> bytes:
    """Return the packed sign bits of all pieces except those of stop words, piece after piece."""
    pieces = [n for n, word in enumerate(tokens.words) if word not in STOP_WORDS]
    return np.packbits(tokens.states[pieces] > 0, axis=1).tobytes()


def weights_of(tokens: Tokens, idf_of: Mapping[str, float]) -> Vectors:
    """Return the weight of each piece of a question; the weights sum to 1.

    STATIC_SHARE of the weights comes from the rarity of the pieces in the language, and the remainder from the idf of
    their words.
    """
    if not tokens.words:
        return np.zeros(0, dtype=np.float32)
    idf = np.array([idf_of.get(word, STOP_WORD_IDF) for word in tokens.words], dtype=np.float32)
    static = tokens.rarities / (tokens.rarities.sum() or 1.0)
    weights = STATIC_SHARE * static + (1 - STATIC_SHARE) * idf / (idf.sum() or 1.0)
    return np.asarray(weights, dtype=np.float32)


def similarities(tokens: Tokens, bits: Sequence[bytes | None]) -> Vectors:
    """Return a matrix (pieces of the question, memories) of the best similarity with any piece of the memory.

    Negative similarities are replaced by 0. A memory without bits has only zeros.
    """
    dimensions = tokens.states.shape[1]
    size = (dimensions + 7) // 8
    best = np.zeros((len(tokens.words), len(bits)), dtype=np.float32)
    counts = [len(row) // size if row else 0 for row in bits]
    if not tokens.words or not any(counts):
        return best
    packed = np.frombuffer(b"".join(row for row in bits if row), dtype=np.uint8).reshape(-1, size)
    signs = np.unpackbits(packed, axis=1, count=dimensions).astype(np.float32)
    lengths = np.linalg.norm(tokens.states, axis=1, keepdims=True)
    units = tokens.states / np.where(lengths > 0, lengths, 1.0)
    # q·sign(d), with signs stored as 0 and 1: twice the sum over the ones, minus the sum of all entries
    products = (2 * units @ signs.T - units.sum(axis=1, keepdims=True)) * math.sqrt(math.pi / 2 / dimensions)
    filled = [n for n, count in enumerate(counts) if count]
    starts = np.cumsum([0, *(counts[n] for n in filled)])[:-1]
    best[:, filled] = np.maximum.reduceat(products, starts, axis=1)
    return np.asarray(np.maximum(best, 0.0), dtype=np.float32)
