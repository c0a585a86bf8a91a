"""What happens to an analysis when a memory that it copied is changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.dispatch import receiver

from analysis import copies
from memories.events import erased, narrowed


@receiver(erased)
def erase_copies(sender: object, record_id: UUID, texts: Sequence[str], **extra: Any) -> None:
    copies.erase(record_id, texts)


@receiver(narrowed)
def drop_unreadable_copies(sender: object, record_ids: Sequence[UUID], **extra: Any) -> None:
    copies.follow(record_ids)
