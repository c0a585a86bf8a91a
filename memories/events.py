"""What other apps hear of a change, and may refuse or hold back. All inside the transaction of the change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from django.dispatch import Signal

from memories.access import Caller
from memories.models import MemoryRecord

# `record`: may refuse to change who reads it, by raising a DomainError.
sharing = Signal()
# `record`: may refuse to make an archived one active again.
restoring = Signal()
# `record`, which is superseded now.
corrected = Signal()
# `record`, of which something was just said or looked at: written, revised, verified, restored.
grounded = Signal()
# `record_ids`, which fewer people may read than before, or others.
narrowed = Signal()
# `record`: may refuse to erase it.
erasing = Signal()
# `record_id` and `texts`: what was said, so that every copy of it goes.
erased = Signal()


class Review(Protocol):
    """Whoever has approved a memory, and keeps what was approved in force until a change of it is approved too."""

    def hold_edit(self, caller: Caller, record: MemoryRecord, changes: Mapping[str, Any]) -> str:
        """Keeps the edit for a curator and says so; "" lets it pass."""
        ...

    def propose_correction(self, caller: Caller, record: MemoryRecord, fields: Mapping[str, Any]) -> str:
        """What becomes of a correction: "" takes the place of the record at once; otherwise the word for who made it,
        and `fields` is to be kept as a proposal."""
        ...

    def proposed(self, caller: Caller, record: MemoryRecord, replaces: MemoryRecord) -> None:
        """The proposal that was written for a correction."""
        ...


class _NoReview:
    """Nobody reviews: edits and corrections count at once."""

    def hold_edit(self, caller: Caller, record: MemoryRecord, changes: Mapping[str, Any]) -> str:
        return ""

    def propose_correction(self, caller: Caller, record: MemoryRecord, fields: Mapping[str, Any]) -> str:
        return ""

    def proposed(self, caller: Caller, record: MemoryRecord, replaces: MemoryRecord) -> None:
        return None


review: Review = _NoReview()


def register_review(one: Review) -> None:
    global review
    review = one
