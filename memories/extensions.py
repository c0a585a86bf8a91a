"""Where other apps plug into memories. Each registry is filled in AppConfig.ready; all that is called here runs inside
the transaction of the change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from django.db.models import Model

from memories.contract.registry import Registry
from memories.identity.caller import Caller
from memories.models import MemoryRecord


class Review:
    """Whoever approves memories. What was approved stays in force until a change of it is approved too; the checks
    refuse by raising a DomainError. A reviewer overrides what concerns it."""

    def check_share(self, record: MemoryRecord) -> None:
        """Before it is decided who reads the record."""

    def check_restore(self, record: MemoryRecord) -> None:
        """Before an archived record becomes active again."""

    def check_erase(self, record: MemoryRecord) -> None:
        """Before a text goes for good."""

    def defer_edit(self, caller: Caller, record: MemoryRecord, changes: Mapping[str, Any]) -> str:
        """Keeps the edit for a curator and says so; "" lets it pass."""
        return ""

    def defer_correction(self, caller: Caller, record: MemoryRecord, fields: Mapping[str, Any]) -> str:
        """Says why a correction waits as a proposal; "" lets it take the record's place at once."""
        return ""

    def proposed(self, caller: Caller, record: MemoryRecord, replaces: MemoryRecord) -> None:
        """A correction was written as the proposal `record`."""

    def corrected(self, record: MemoryRecord) -> None:
        """The record is superseded now."""


class Copies(Protocol):
    """Whoever copies what memories say."""

    def erase(self, record_id: UUID, texts: Sequence[str]) -> None:
        """A record was erased: its copies go, and what quotes these texts."""
        ...

    def follow(self, record_ids: Sequence[UUID]) -> None:
        """Fewer people, or others, may read these records than before."""
        ...


@dataclass(frozen=True)
class PersonalDataColumn:
    """A column that names a person. When the person's data is wiped its rows go, or, where others rely on them, stay
    under a pseudonym."""

    model: type[Model]
    column: str
    stays: bool = False


REVIEWS: Registry[Review] = Registry("reviews")
COPIES: Registry[Copies] = Registry("copies")
# Called with a text; returns the URNs of the catalog entities that it speaks of.
SUBJECTS: Registry[Callable[[str], Sequence[str]]] = Registry("subjects")
# The columns of each app that name a person.
TRACES: Registry[Callable[[], Sequence[PersonalDataColumn]]] = Registry("traces")
# Called with an owner whose data was wiped, and the pseudonym; returns how many rows of which table were emptied.
WIPES: Registry[Callable[[str, str], Mapping[str, int]]] = Registry("wipes")
# Called with the URNs and names of entities that the catalog says something else of now.
CATALOG_CHANGES: Registry[Callable[[Sequence[str], Sequence[str]], object]] = Registry("catalog changes")
# Called with a record of which something was just said or looked at: written, revised, restored, verified; and whether
# it is new, so that nothing of it can be there yet.
GROUNDS: Registry[Callable[[MemoryRecord, bool], None]] = Registry("grounds")
# Called with a record that has just gone stale, and whoever found it so.
STALE_LISTENERS: Registry[Callable[[MemoryRecord, Caller], None]] = Registry("listeners to staleness")
# Derives anew what an app's own search reads; each says in words what it did.
REBUILDS: Registry[Callable[[], str]] = Registry("rebuilds")


def first_non_empty(words: Sequence[str]) -> str:
    """What the first reviewer who holds something back says."""
    return next(filter(None, words), "")
