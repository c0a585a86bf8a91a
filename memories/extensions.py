"""Extension points of the memories app.

An app that extends the memories app subclasses MemoryExtension in its `memory_extension.py`, overrides the hooks it
needs and registers the class in `AppConfig.ready`, with `EXTENSIONS.register`. Any number of apps may do so. Hooks for
changes run inside the transaction of the change. Hooks for recall and tool calls run outside of a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Model, Q, QuerySet

from foundation.extensions import Extensions
from foundation.operations.errors import DomainError
from foundation.people.caller import Caller
from foundation.tools.declaration import Call, ContextBlock, ContextLookup
from memories.models import MemoryRecord
from memories.portability import ExportKind


@dataclass(frozen=True)
class TextPlace:
    """A table in which people or agents write texts, which may quote a memory.

    It needs an index of `exact_words(*columns)` (memories/models/fields.py), or a `search_column`.
    """

    name: str  # the plural, for example "findings"
    model: type[Model]
    columns: tuple[str, ...]
    readable: Callable[[Caller], QuerySet[Any]]  # the rows whose text a caller may read
    owner: str  # the column with the e-mail address of the person who wrote the text
    erased_value: str | None = None  # the value of the columns once they are erased; None if the row is deleted
    search_column: str = ""  # a column with a SearchText of the columns, by which candidates are found
    changed_by: str = ""  # what else changes the text, if erasing must not; for example "a changeset"


@dataclass(frozen=True)
class Mention:
    """A catalog entity that a text mentions, and those of its columns that the text names."""

    urn: str
    name: str
    columns: Sequence[str] = ()


@dataclass(frozen=True)
class EntityCandidate:
    """An entity, or one of its columns, that a memory may be about, and why."""

    urn: str
    name: str
    why: str
    column: str = ""
    score: float = 0.0  # to compare candidates of one memory; it has no unit


@dataclass(frozen=True)
class CheckSummary:
    """The state of a memory's checks, of which the worst counts, for readers of the memory."""

    state: str  # passed, failed, not_run or cannot_run
    at: datetime | None  # of the last run
    text: str  # for agents, for example "passed 3 h ago"


@dataclass(frozen=True)
class StaleCause:
    """A second reason to keep a memory stale, once the first one has gone."""

    by: str  # who marks it stale, in the history
    reason: str


# Stores, changes or runs a check of a memory inside the transaction of the change, and returns a message.
PreparedCheck = Callable[[MemoryRecord], str]


class MemoryExtension:
    # -- review: a check raises a DomainError to refuse the change ---------------------------------------

    def check_share(self, record: MemoryRecord) -> None:
        """Called before a memory is shared or moved to another persona. Admins may move memories without this check.

        If it raises for a note, the note is not pruned.
        """

    def check_restore(self, record: MemoryRecord) -> None:
        """Called before an archived or stale memory is restored."""

    def check_erase(self, record: MemoryRecord) -> None:
        """Called before a memory is erased permanently. If it raises for a note, the note is not pruned."""

    def defer_edit(self, caller: Caller, record: MemoryRecord, changes: Mapping[str, Any]) -> str:
        """Store an edit that needs approval and return a message about this, or return "" to allow the edit now.

        `changes` has the new values by field. Those of `metadata` are merged with the existing ones, key by key.
        """
        return ""

    def defer_correction(self, caller: Caller, record: MemoryRecord, fields: Mapping[str, Any]) -> str:
        """Return why a correction has to wait for approval, or "" to allow the correction now."""
        return ""

    def proposals_among(self, record_ids: Sequence[UUID]) -> Mapping[UUID, bool]:
        """Return those of these memories that are proposals for review, each with whether it has been approved."""
        return {}

    # -- validity ----------------------------------------------------------------------------------------

    def condition_kinds(self) -> Mapping[str, Callable[[str], Any]]:
        """Return the app's kinds of conditions on which memories may depend (ConditionKind in validity/rules.py)."""
        return {}

    # -- life cycle of a memory --------------------------------------------------------------------------

    def record_saved(self, record: MemoryRecord, *, created: bool) -> None:
        """Called after a memory was created, enriched, or edited in text, entities or columns."""

    def record_changed(self, record: MemoryRecord, change: str, before: Mapping[str, Any]) -> None:
        """Called after each change of a saved memory. `before` has the earlier values of all columns, by attname."""

    def correction_proposed(self, caller: Caller, record: MemoryRecord, replaces: MemoryRecord) -> None:
        """Called after a correction of `replaces` was stored as the proposal `record`."""

    def record_superseded(self, record: MemoryRecord) -> None:
        """Called after a correction of the memory was stored, before the memory's status changes."""

    def correction_undone(self, record: MemoryRecord) -> None:
        """Called when a memory that was superseded comes into force again, because its correction is undone."""

    def record_stale(self, record: MemoryRecord, caller: Caller) -> None:
        """Called after a memory became stale through a change by `caller`."""

    def verification_outdated(self, record: MemoryRecord, caller: Caller, verifiers: Sequence[str]) -> None:
        """Called after `caller` changed a memory that the people `verifiers` (e-mail addresses) have verified."""

    def record_reported(self, record: MemoryRecord, caller: Caller) -> None:
        """Called after `caller` reported a memory as wrong or outdated."""

    def report_withdrawn(self, record: MemoryRecord, caller: Caller) -> None:
        """Called after `caller` withdrew all reports about a memory, among them one as wrong or outdated."""

    # -- checks of memories ------------------------------------------------------------------------------

    def prepare_check(self, caller: Caller, check: Mapping[str, Any], record_id: UUID | None) -> PreparedCheck | None:
        """Run the statement of a check, outside of a transaction, and return what stores it.

        `record_id` is None for a memory that is about to be stored. Raises a DomainError if the check is refused.
        """
        return None

    def keep_checks(self, old: MemoryRecord, new: MemoryRecord) -> None:
        """Copy the checks of a corrected memory to its correction."""

    def checks_of(self, record_ids: Sequence[UUID]) -> Mapping[UUID, CheckSummary]:
        """Return the state of the checks of those memories that have any."""
        return {}

    def additions_to_memories(self, since: datetime) -> Mapping[str, QuerySet[Any]]:
        """Return rows that were added to memories since then, by what they are in words. They have a `record`.

        An undone import keeps the memories that have any.
        """
        return {}

    def described_checks(self, caller: Caller, record_id: UUID) -> Sequence[Mapping[str, Any]]:
        """Return the checks of a memory that the caller may read, for a response."""
        return ()

    def recent_statement(self, caller: Caller, call: str) -> tuple[str, str] | None:
        """Return the source and the SQL of an earlier call of query_sql by the caller, or None if it is unknown.

        `call` is the id of the call, or "last".
        """
        return None

    def stale_cause(self, record: MemoryRecord) -> StaleCause | None:
        """Return why the locked memory stays stale, although the reason for its status has gone."""
        return None

    def citing_documents_outdated(self, documents: Mapping[UUID, str], by: str) -> None:
        """Called after `by` changed or erased a memory that these documents cite. The values are their authors."""

    def citing_documents_resolved(self, document_ids: Sequence[UUID]) -> None:
        """Called after documents were removed, or cite nothing any more that has changed."""

    # -- copies of memories ------------------------------------------------------------------------------

    def erase_copies(self, caller: Caller, record_id: UUID, texts: Sequence[str]) -> Mapping[str, int]:
        """Delete or clear the app's copies of an erased memory. Return the number of rows by kind of row.

        A copy is found by its origin, such as the memory's id. `texts` serve to cut quotations out of such rows. The
        same words elsewhere are no copy.
        """
        return {}

    def copied_memories(self, record: MemoryRecord) -> Sequence[UUID]:
        """Return the ids of memories that were made as copies of this one. They are erased with it."""
        return ()

    def text_places(self) -> Sequence[TextPlace]:
        """Return the app's tables with texts that may quote a memory."""
        return ()

    def access_narrowed(self, record_ids: Sequence[UUID]) -> None:
        """Delete copies of these memories that belong to users who may no longer read the memories."""

    def catalog_changed(self, urns: Sequence[str], names: Sequence[str]) -> None:
        """Called after aspects of these entities changed in the catalog.

        `names` are the qualified names of the entities, without short names, which are ordinary words.
        """

    # -- personal data -----------------------------------------------------------------------------------

    def portable_kinds(self) -> Sequence[ExportKind]:
        """Return the app's kinds of rows that people export and restore, those that others refer to first."""
        return ()

    def is_proposal(self) -> Q:
        """Return the condition for memories that are proposals for review."""
        return Q(pk__in=[])

    def things_received(self, email: str) -> None:
        """Called after a person has received what belonged to another one, which may quote what they can't read."""

    def owner_wiped(self, owner: str, pseudonym: str) -> Mapping[str, int]:
        """Remove personal data that no model lists in `person_columns`. Return the number of changed rows by kind."""
        return {}

    # -- recall ------------------------------------------------------------------------------------------

    def related_entities(self, caller: Caller, urns: Sequence[str]) -> tuple[Mapping[str, int], str]:
        """Return nearby entities, as URN → distance in steps, and a note if the result is degraded, otherwise ""."""
        return {}, ""

    def verification_hints(self, record_ids: Sequence[UUID]) -> Mapping[UUID, str]:
        """Return, by record id, why a recalled memory should be verified."""
        return {}

    def scopes(self) -> Mapping[str, str]:
        """Return the scopes that the app adds to personas and purposes, such as "domain:urn:li:domain:1", by label."""
        return {}

    def contradiction(self, text: str, other: str) -> str:
        """Return in which words two texts contradict each other, or "" if they don't."""
        return ""

    def entities_in(self, texts: Sequence[str]) -> Sequence[Sequence[Mention]]:
        """Return for each text the catalog entities that it mentions by URN or dotted name. Called in transactions."""
        return [()] * len(texts)

    def unknown_entities(self, urns: Sequence[str]) -> str:
        """Return a sentence that names those of the entities that the catalog lacks, or ""."""
        return ""

    def has_entities(self) -> bool:
        """Return whether there are catalog entities that a memory can be about."""
        return False

    def likely_entities(
        self, caller: Caller, records: Sequence[MemoryRecord]
    ) -> tuple[Mapping[UUID, Sequence[EntityCandidate]], str]:
        """Return what each memory may be about, best first, and a note on what was not considered, otherwise ""."""
        return {}, ""

    def rebuild_search(self) -> str:
        """Rebuild the derived data of the app's own search, outside of a transaction. Return a line to print, or ""."""
        return ""

    # -- MCP tool calls ----------------------------------------------------------------------------------

    def lookup_for(self, caller: Caller, call: Call) -> ContextLookup | None:
        """Return what looks up context for the response to a call, or None. The call has no answer yet."""
        return None

    def after_call(self, caller: Caller, call: Call) -> Iterable[ContextBlock]:
        """Return context to attach to the response of a successful tool call."""
        return ()

    def call_failed(self, caller: Caller, call: Call, error: DomainError) -> None:
        """Called after a tool call was refused or failed."""


EXTENSIONS: Extensions[MemoryExtension] = Extensions()

# -- what services call: a function asks all extensions, and its rule says what becomes of their answers ---------
# Hooks whose answers need more than such a rule are asked where they are used, in a loop over EXTENSIONS.all().

check_share = EXTENSIONS.tell(MemoryExtension.check_share)
check_restore = EXTENSIONS.tell(MemoryExtension.check_restore)
check_erase = EXTENSIONS.tell(MemoryExtension.check_erase)
record_saved = EXTENSIONS.tell(MemoryExtension.record_saved)
record_changed = EXTENSIONS.tell(MemoryExtension.record_changed)
correction_proposed = EXTENSIONS.tell(MemoryExtension.correction_proposed)
record_superseded = EXTENSIONS.tell(MemoryExtension.record_superseded)
correction_undone = EXTENSIONS.tell(MemoryExtension.correction_undone)
record_stale = EXTENSIONS.tell(MemoryExtension.record_stale)
verification_outdated = EXTENSIONS.tell(MemoryExtension.verification_outdated)
record_reported = EXTENSIONS.tell(MemoryExtension.record_reported)
report_withdrawn = EXTENSIONS.tell(MemoryExtension.report_withdrawn)
keep_checks = EXTENSIONS.tell(MemoryExtension.keep_checks)
citing_documents_outdated = EXTENSIONS.tell(MemoryExtension.citing_documents_outdated)
citing_documents_resolved = EXTENSIONS.tell(MemoryExtension.citing_documents_resolved)
access_narrowed = EXTENSIONS.tell(MemoryExtension.access_narrowed)
things_received = EXTENSIONS.tell(MemoryExtension.things_received)
catalog_changed = EXTENSIONS.tell(MemoryExtension.catalog_changed)

defer_edit = EXTENSIONS.first(MemoryExtension.defer_edit)
defer_correction = EXTENSIONS.first(MemoryExtension.defer_correction)
prepare_check = EXTENSIONS.first(MemoryExtension.prepare_check)
recent_statement = EXTENSIONS.first(MemoryExtension.recent_statement)
stale_cause = EXTENSIONS.first(MemoryExtension.stale_cause)

contradiction = EXTENSIONS.any_of(MemoryExtension.contradiction)
has_entities = EXTENSIONS.any_of(MemoryExtension.has_entities)

described_checks = EXTENSIONS.listed(MemoryExtension.described_checks)
copied_memories = EXTENSIONS.listed(MemoryExtension.copied_memories)
text_places = EXTENSIONS.listed(MemoryExtension.text_places)
portable_kinds = EXTENSIONS.listed(MemoryExtension.portable_kinds)

proposals_among = EXTENSIONS.merged(MemoryExtension.proposals_among)
condition_kinds = EXTENSIONS.merged(MemoryExtension.condition_kinds)
checks_of = EXTENSIONS.merged(MemoryExtension.checks_of)
additions_to_memories = EXTENSIONS.merged(MemoryExtension.additions_to_memories)
scopes = EXTENSIONS.merged(MemoryExtension.scopes)

erase_copies = EXTENSIONS.counted(MemoryExtension.erase_copies)
owner_wiped = EXTENSIONS.counted(MemoryExtension.owner_wiped)

unknown_entities = EXTENSIONS.sentences(MemoryExtension.unknown_entities)
