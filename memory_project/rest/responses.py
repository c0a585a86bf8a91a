"""Answers of the REST API that no tool has; the others are the tools'."""

from __future__ import annotations

from typing_extensions import TypedDict

from memories.responses import ChangeShape, MemoryShape, SimilarShape


class CorrectedShape(TypedDict):
    memory: MemoryShape
    similar_existing: list[SimilarShape]
    note: str


class KeptShape(CorrectedShape):
    existing: bool


class OneMemoryShape(TypedDict):
    memory: MemoryShape
    chain: list[MemoryShape]
    history: list[ChangeShape]
    omitted: int
