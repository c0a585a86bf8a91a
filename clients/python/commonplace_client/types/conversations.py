"""Answers about conversations and the account."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from commonplace_client.types.memories import Memory


class Account(TypedDict):
    email: str
    persona: str
    personas: list[str]
    rights: list[str]
    is_admin: bool


class Turn(Memory):
    """A message of a conversation (tier `stm`), or what was kept of several (tier `ltm`)."""

    conversation_id: str
    tier: str
    role: str
    author: str
    expires_at: str | None


class FoundTurn(TypedDict):
    _id: str
    user_id: str
    tier: str
    content: str
    importance: float
    access_count: int
    created_at: str
    conversation_id: str
    role: NotRequired[str]
    author: NotRequired[str]
    summary: NotRequired[str]
    tags: NotRequired[list[str]]
    memory_type: NotRequired[str]
    derived_from: NotRequired[str]
    expires_at: NotRequired[str]
    final_score: NotRequired[float]
    rrf_score: NotRequired[float]


class FoundTurns(TypedDict):
    results: list[FoundTurn]
    count: int
    omitted: NotRequired[int]
    degraded: NotRequired[bool]
    note: NotRequired[str]


class Stored(TypedDict):
    stm_ids: list[str]
    count: int
    note: NotRequired[str]
