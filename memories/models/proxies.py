"""Proxy models for the kinds of memories that have their own list in the admin."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

from memories.models.record import MemoryRecord


class StaleMemory(MemoryRecord):
    """A memory whose subject has changed, or that a reader marked as wrong."""

    class Meta:
        proxy = True
        verbose_name = gettext_lazy("stale memory")
        verbose_name_plural = gettext_lazy("stale memories")


class Correction(MemoryRecord):
    """A memory that superseded another one."""

    class Meta:
        proxy = True
        verbose_name = gettext_lazy("correction")


class ConversationMemory(MemoryRecord):
    """A turn of a conversation, or a long-term memory derived from one."""

    class Meta:
        proxy = True
        verbose_name = gettext_lazy("conversation memory")
        verbose_name_plural = gettext_lazy("conversation memories")
