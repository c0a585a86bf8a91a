"""Memories by what waits to be done with them: lists of their own in the admin, no tables of their own."""

from __future__ import annotations

from memories.models.record import MemoryRecord


class StaleMemory(MemoryRecord):
    """A memory whose subject has changed, or that a reader found wrong."""

    class Meta:
        proxy = True
        verbose_name = "stale memory"
        verbose_name_plural = "stale memories"


class Correction(MemoryRecord):
    """A memory that took another one's place."""

    class Meta:
        proxy = True
        verbose_name = "correction"


class ConversationMemory(MemoryRecord):
    """A turn of a conversation, or what lasts of one."""

    class Meta:
        proxy = True
        verbose_name = "conversation memory"
        verbose_name_plural = "conversation memories"
