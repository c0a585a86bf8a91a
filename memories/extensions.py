"""Extension points of the memories app.

An app that adds to memories subclasses MemoryExtension in its `memory_extension.py`, overrides the hooks it needs and
registers the class in `AppConfig.ready`. Any number of apps may do so. Unless its docstring says otherwise, a hook runs
inside the transaction of the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Model
from django.utils.module_loading import import_string

from memories.contract.errors import DomainError
from memories.contract.tools import Call, ContextBlock
from memories.identity.caller import Caller
from memories.models import MemoryRecord


@dataclass(frozen=True)
class PersonalDataColumn:
    """A column that names a person. If the person's data is wiped, the rows are deleted."""

    model: type[Model]
    column: str
    stays: bool = False  # keep the rows, because others rely on them, and replace the name with a pseudonym


class MemoryExtension:
    # -- review: a check refuses the change by raising a DomainError -------------------------------------

    def check_share(self, record: MemoryRecord) -> None:
        """Called before the visibility of a memory changes."""

    def check_restore(self, record: MemoryRecord) -> None:
        """Called before an archived memory becomes active again."""

    def check_erase(self, record: MemoryRecord) -> None:
        """Called before a memory is erased permanently."""

    def defer_edit(self, caller: Caller, record: MemoryRecord, changes: Mapping[str, Any]) -> str:
        """Store the edit for later approval and return a message about it, or return "" to let it happen now."""
        return ""

    def defer_correction(self, caller: Caller, record: MemoryRecord, fields: Mapping[str, Any]) -> str:
        """Return why a correction has to wait as a proposal, or "" to let it supersede the memory now."""
        return ""

    # -- life cycle of a memory --------------------------------------------------------------------------

    def record_saved(self, record: MemoryRecord, *, created: bool) -> None:
        """Called after a memory is created, edited, restored or verified."""

    def correction_proposed(self, caller: Caller, record: MemoryRecord, replaces: MemoryRecord) -> None:
        """Called after a correction of `replaces` was stored as the proposal `record`."""

    def record_superseded(self, record: MemoryRecord) -> None:
        """Called after a correction took the memory's place."""

    def record_stale(self, record: MemoryRecord, caller: Caller) -> None:
        """Called after a memory was marked stale by `caller`."""

    # -- copies of memories ------------------------------------------------------------------------------

    def erase_copies(self, record_id: UUID, texts: Sequence[str]) -> None:
        """Delete the app's copies of an erased memory, and quotations of its texts."""

    def access_narrowed(self, record_ids: Sequence[UUID]) -> None:
        """Drop copies from readers who may no longer read these memories."""

    def catalog_changed(self, urns: Sequence[str], names: Sequence[str]) -> None:
        """Called after aspects of these entities changed in the catalog; `names` are their qualified names."""

    # -- personal data -----------------------------------------------------------------------------------

    def personal_data(self) -> Sequence[PersonalDataColumn]:
        """Return the app's columns that name a person."""
        return ()

    def owner_wiped(self, owner: str, pseudonym: str) -> Mapping[str, int]:
        """Remove personal data that `personal_data` does not list. Return the number of emptied rows by table."""
        return {}

    # -- recall ------------------------------------------------------------------------------------------

    def related_entities(self, caller: Caller, urns: Sequence[str]) -> tuple[Mapping[str, int], str]:
        """Return the distance of each nearby entity in steps, by URN, and a note if the result is degraded."""
        return {}, ""

    def verification_hints(self, record_ids: Sequence[UUID]) -> Mapping[UUID, str]:
        """Return, by record id, why a recalled memory should be verified. Runs outside of a transaction."""
        return {}

    def entities_in(self, text: str) -> Sequence[str]:
        """Return the URNs of the catalog entities that a text mentions."""
        return ()

    def rebuild_search(self) -> str:
        """Rebuild the derived data of the app's own search. Return a line for the operator, or ""."""
        return ""

    # -- tool calls, on every channel of agents; outside of a transaction --------------------------------

    def after_call(self, caller: Caller, call: Call) -> Iterable[ContextBlock]:
        """Return context to attach to the response of a successful tool call."""
        return ()

    def call_failed(self, caller: Caller, call: Call, error: DomainError) -> None:
        """Called after a tool call was refused or failed."""


_extensions: dict[str, MemoryExtension] = {}


def register(path: str) -> None:
    """Import and register the extension class with this dotted path; registering it again replaces it."""
    _extensions[path] = import_string(path)()


def registered() -> Sequence[MemoryExtension]:
    """Return the extensions in the order of INSTALLED_APPS."""
    return tuple(_extensions.values())
