"""Messages that offer to undo the change of a memory that they report.

The change is in the message's tags, because a message is kept for the next page, whichever that is.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.contrib.messages.storage.base import Message

PREFIX = "undo:"


@dataclass(frozen=True)
class UndoOffer:
    """The last change of a memory, which a message offers to undo."""

    record_id: UUID
    change: str


def undo_tag(record_id: UUID, change: str) -> str:
    return f"{PREFIX}{record_id.hex}:{change}"


def undo_in(message: Message) -> UndoOffer | None:
    """Return what the message offers to undo, or None."""
    if not (message.extra_tags or "").startswith(PREFIX):
        return None
    _, record_id, change = message.extra_tags.split(":")
    return UndoOffer(UUID(record_id), change)
