"""Deletion of export files with what they contain, and with their owners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from foundation.people.caller import Caller
from memories.extensions import MemoryExtension
from memory_project.exchange.exports import services


class ExportMemoryExtension(MemoryExtension):
    def erase_copies(self, caller: Caller, record_id: UUID, texts: Sequence[str]) -> Mapping[str, int]:
        return {"exports": services.delete_with_memory(record_id)}

    def access_narrowed(self, record_ids: Sequence[UUID]) -> None:
        services.delete_narrowed(record_ids)

    def owner_wiped(self, owner: str, pseudonym: str) -> Mapping[str, int]:
        count = services.delete_of_person(owner)
        return {"exports": count} if count else {}
