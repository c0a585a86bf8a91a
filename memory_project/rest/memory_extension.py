"""Erasure of stored answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from foundation.people.caller import Caller
from memories.extensions import MemoryExtension
from memory_project.rest.models import IdempotentAnswer


class RestMemoryExtension(MemoryExtension):
    def erase_copies(self, caller: Caller, record_id: UUID, texts: Sequence[str]) -> Mapping[str, int]:
        return {"stored answers": IdempotentAnswer.objects.filter(record_ids__contains=[record_id]).delete()[0]}
