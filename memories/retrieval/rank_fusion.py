"""Reciprocal rank fusion of lists ranked by different scores (Cormack, Clarke and Büttcher, SIGIR 2009)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

RRF_K = 60  # the constant k of the article

Key = TypeVar("Key", bound=Hashable)


def fuse(arms: Iterable[Iterable[Key]]) -> dict[Key, float]:
    """Return, for each key, the sum of 1 / (RRF_K + rank) over the lists that contain it.

    Each list has its best key first, with rank 1. The keys of the result are in the order of their first occurrence.
    """
    fused: dict[Key, float] = {}
    for arm in arms:
        for rank, key in enumerate(arm, start=1):
            fused[key] = fused.get(key, 0.0) + 1 / (RRF_K + rank)
    return fused
