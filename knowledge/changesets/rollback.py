"""Rollback of changesets, value by value, and replay of changesets whose values the catalog has lost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import locks
from foundation.operations.errors import Conflict
from foundation.people.caller import Caller
from foundation.work import progress
from knowledge.catalog.entity_view import name_of
from knowledge.catalog.interface import Catalog, Write, WriteRun
from knowledge.catalog.usage import CatalogUsage, usage_of
from knowledge.changesets import shared_values
from knowledge.changesets.apply import get_changeset
from knowledge.changesets.delivery import (
    DONE,
    as_before,
    as_written,
    catalog_of,
    exclusive,
    is_creation_undone,
    save_outcome,
    value_now,
)
from knowledge.changesets.new_entities import UNDO_CREATION
from knowledge.freshness import own_writes
from knowledge.insights.lifecycle import require_curator, return_to_review
from knowledge.models import Change, ChangeOutcome, Changeset, ChangesetState

# The states in which a changeset can be rolled back
ROLLED_BACK_FROM = (ChangesetState.APPLIED, ChangesetState.PARTIAL, ChangesetState.PLANNED)


@dataclass(frozen=True)
class RolledBack:
    changeset: Changeset
    reverted: list[Change] = field(default_factory=list)
    conflicts: list[Change] = field(default_factory=list)
    skipped: list[Change] = field(default_factory=list)
    kept: list[Undo] = field(default_factory=list)
    insights_returned: int = 0
    used: list[CatalogUsage] = field(default_factory=list)  # removed entities that others use, see `_users_of_created`


@dataclass(frozen=True)
class Undo:
    """Treatment of one change by a rollback."""

    change: Change
    is_ours: bool  # the catalog still has the written value, or has the one from before again
    heirs: list[Change] = field(default_factory=list)  # changes of other changesets that rest on the value

    @property
    def is_kept(self) -> bool:
        return self.is_ours and bool(self.heirs)

    @property
    def is_erased(self) -> bool:
        """Whether the value to restore was erased. Then the written value stays in the catalog."""
        change = self.change
        return self.is_ours and not self.heirs and change.before_erased and change.had_before and not change.creates

    @property
    def is_possible(self) -> bool:
        return self.is_ours and not self.heirs and not self.is_erased

    @property
    def relied_on_by(self) -> list[str]:
        """The ids of the insights that still rely on the value."""
        return sorted({pk for heir in self.heirs for pk in heir.changeset.insight_ids})


@dataclass(frozen=True)
class RollBackPreview:
    changeset: Changeset
    undos: list[Undo]  # how a rollback would treat each change, newest first
    used: list[CatalogUsage]  # entities that it would remove and that others use, see `_users_of_created`


def roll_back(caller: Caller, *, changeset_id: UUID | str, skip_conflicts: bool = False) -> RolledBack:
    """Undo the writes of a changeset, and return its insights to review.

    Values that the insights of other changesets rest on are kept. If others have changed some of the written values
    since, or if the value from before was erased, nothing is undone and Conflict is raised. With `skip_conflicts`,
    those values stay as they are and all other writes are undone.
    """
    changeset = changeset_to_undo(caller, changeset_id)
    catalog = catalog_of(changeset)
    with exclusive(changeset), own_writes.keep_baselines_current(changeset):
        undos = _plan(catalog, changeset)
        used = _users_of_created(undos)
        result = _restore(caller, catalog, changeset, undos, skip_conflicts)
    removed = {change.urn for change in result.reverted if change.creates}
    return replace(result, used=[usage for usage in used if usage.urn in removed])


def changeset_to_undo(caller: Caller, changeset_id: UUID | str) -> Changeset:
    """Return the changeset. Raises Conflict if its state rules out a rollback."""
    require_curator(caller)
    changeset = get_changeset(caller, changeset_id)
    if changeset.state == ChangesetState.WAITING:
        raise Conflict(
            gettext("waits for a second approval, so nothing was written: it can be declined (decline_changeset)"),
            field="changeset_id",
        )
    if changeset.state not in ROLLED_BACK_FROM:
        raise Conflict(
            gettext("is %(changeset)s: there is nothing to roll back")
            % {"changeset": changeset.get_state_display().lower()},
            field="changeset_id",
        )
    return changeset


def roll_back_preview(caller: Caller, *, changeset_id: UUID | str) -> RollBackPreview:
    changeset = get_changeset(caller, changeset_id)
    undos = _plan(catalog_of(changeset), changeset)
    return RollBackPreview(changeset, undos, _users_of_created(undos))


def _plan(catalog: Catalog, changeset: Changeset) -> list[Undo]:
    changes = _changes_to_undo(changeset)
    heirs = shared_values.heirs_of(changeset, changes)
    return [
        Undo(change, _is_ours(change, value_now(catalog, change)), heirs.get(change.position, [])) for change in changes
    ]


def _is_ours(change: Change, current: Any) -> bool:
    if as_written(change, current) or is_creation_undone(change, current):
        return True
    # A crash may have ended a write before it began, or a revert after it was sent.
    return change.outcome != ChangeOutcome.LANDED and as_before(change, current)


def _users_of_created(undos: list[Undo]) -> list[CatalogUsage]:
    """Return the entities that a rollback removes and that others use by now, or whose users can't be known.

    The references that the rollback removes as well don't count.
    """
    own_values: dict[tuple[str, str], list[Any]] = {}
    for undo in undos:
        own_values.setdefault((undo.change.urn, undo.change.aspect), []).append(undo.change.written)
    created = [
        undo.change
        for undo in undos
        if undo.change.creates and undo.change.aspect not in UNDO_CREATION and not undo.heirs
    ]
    usages = [
        usage_of(change.urn, name_of({change.aspect: change.written or {}}) or change.urn, own_values)
        for change in created
    ]
    return [usage for usage in usages if usage.users or usage.is_unknown]


def _changes_to_undo(changeset: Changeset) -> list[Change]:
    states = [ChangeOutcome.LANDED, ChangeOutcome.SENDING, ChangeOutcome.REVERTING]
    newest: dict[tuple[Any, ...], Change] = {}
    for change in changeset.changes.filter(outcome__in=states).order_by("position"):
        key = (change.urn, change.aspect, tuple(change.path))
        if first := newest.get(key):
            # Several writes to a path are undone together: the value from before the first one is restored.
            change.had_before = first.had_before
            change.before = first.before
            change.creates = first.creates
            change.before_erased = first.before_erased
        newest[key] = change
    return sorted(newest.values(), key=lambda change: -change.position)


def _restore(
    caller: Caller, catalog: Catalog, changeset: Changeset, undos: list[Undo], skip_conflicts: bool
) -> RolledBack:
    conflicts = [undo.change for undo in undos if not undo.is_ours]
    erased = [undo.change for undo in undos if undo.is_erased]
    kept = [undo for undo in undos if undo.is_kept]
    if not skip_conflicts:
        _refuse(conflicts, gettext("has values that others have changed since: %(changes)s"))
        _refuse(erased, gettext("has values whose earlier value was erased and can't be restored: %(changes)s"))
    own_changes = [undo.change for undo in undos if undo.is_possible]
    deleted = {change.urn for change in own_changes if change.creates}
    run = WriteRun(f"{changeset.run_id}-back", caller.email, {"rolls_back": changeset.pk.hex})
    reverted: list[Change] = []
    for number, change in enumerate(own_changes):
        if number:
            progress.tell(number, len(own_changes), f"Restored {number} of {len(own_changes)} values in the catalog")
        is_reverted = _revert(catalog, change, run, entity_is_deleted=change.urn in deleted and not change.creates)
        (reverted if is_reverted else conflicts).append(change)
    with locks.fenced(), transaction.atomic():
        _save_rollback(caller, changeset, conflicts, erased, kept)
        returned = return_to_review(caller, changeset)
    skipped = list(changeset.changes.filter(outcome=ChangeOutcome.NOOP))
    return RolledBack(changeset, reverted, [*conflicts, *erased], skipped, kept, returned)


def _refuse(changes: list[Change], message: str) -> None:
    if changes:
        raise Conflict(
            message % {"changes": "; ".join(f"{change.urn} {change}" for change in changes[:5])},
            field="changeset_id",
            allowed=gettext("skip_conflicts=true, which leaves these values as they are"),
        )


def _save_rollback(
    caller: Caller, changeset: Changeset, conflicts: list[Change], erased: list[Change], kept: list[Undo]
) -> None:
    for change in erased:
        save_outcome(change, ChangeOutcome.CONFLICT, "the value from before was erased, so this one was left as it is")
    for change in conflicts:
        save_outcome(change, ChangeOutcome.CONFLICT, "others have changed the value since, so it was left as it is")
        shared_values.pass_on_before(changeset, change)
    for undo in kept:
        save_outcome(undo.change, ChangeOutcome.KEPT)
        shared_values.pass_on(undo.change, undo.heirs)
    changeset.changes.filter(outcome=ChangeOutcome.LANDED).update(outcome=ChangeOutcome.REVERTED)
    changeset.state = ChangesetState.ROLLED_BACK
    changeset.rolled_back_by = caller.email
    changeset.rolled_back_at = timezone.now()
    changeset.save(update_fields=["state", "rolled_back_by", "rolled_back_at"])


def _revert(catalog: Catalog, change: Change, run: WriteRun, *, entity_is_deleted: bool) -> bool:
    """Undo one write. Return False if others have changed the value, which then stays as it is."""
    current = value_now(catalog, change)
    # A change of an entity that the changeset created is undone by deleting the entity.
    if entity_is_deleted or as_before(change, current) or is_creation_undone(change, current):
        save_outcome(change, ChangeOutcome.REVERTED)
        return True
    if not as_written(change, current):  # changed since the plan was made
        return False
    save_outcome(change, ChangeOutcome.REVERTING)
    catalog.write(inverse(change), run)
    save_outcome(change, ChangeOutcome.REVERTED)
    return True


def inverse(change: Change) -> Write:
    if change.creates and change.aspect in UNDO_CREATION:
        path, value = UNDO_CREATION[change.aspect]
        return Write(change.urn, change.aspect, path, "add", value)
    if change.creates:
        return Write(change.urn, "status", ("removed",), "add", True)
    path = tuple(change.path)
    if change.had_before:
        return Write(change.urn, change.aspect, path, "add", change.before)
    return Write(change.urn, change.aspect, path, "remove")


def replay(caller: Caller, *, changeset_id: UUID | str) -> tuple[int, int]:
    """Repeat those writes of an applied changeset that the catalog has lost.

    A write also counts as lost if others have changed its value since; the value is then overwritten. Returns the
    number of repeated writes and the number of writes that the catalog still has.
    """
    require_curator(caller)
    changeset = get_changeset(caller, changeset_id)
    if changeset.state != ChangesetState.APPLIED:
        raise Conflict(
            gettext("is %(state)s: only an applied changeset can be replayed") % {"state": changeset.state},
            field="changeset_id",
        )
    catalog = catalog_of(changeset)
    run = WriteRun(changeset.run_id, caller.email, {"replays": changeset.pk.hex})
    count = 0
    with exclusive(changeset):
        changes = list(changeset.changes.filter(outcome__in=DONE).order_by("position"))
        for change in changes:
            if not as_written(change, value_now(catalog, change)):
                locks.check()
                catalog.write(
                    Write(change.urn, change.aspect, tuple(change.path), change.operation, change.written), run
                )
                count += 1
    return count, len(changes) - count
