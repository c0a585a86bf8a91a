"""Proxy models for the kinds of memories that have their own list in the admin."""

from __future__ import annotations

from memories.models.record import MemoryRecord


class StaleMemory(MemoryRecord):
    """A memory whose subject has changed, or that a reader marked as wrong."""

    class Meta:
        proxy = True
        verbose_name = "stale memory"
        verbose_name_plural = "stale memories"


class Correction(MemoryRecord):
    """A memory that superseded another one."""

    class Meta:
        proxy = True
        verbose_name = "correction"


class ConversationMemory(MemoryRecord):
    """A turn of a conversation, or a long-term memory derived from one."""

    class Meta:
        proxy = True
        verbose_name = "conversation memory"
        verbose_name_plural = "conversation memories"
