"""Rollback of changesets, value by value, and replay of changesets whose values the catalog has lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from knowledge.catalog.interface import Catalog, Run, Write
from knowledge.changesets.apply import get_changeset
from knowledge.changesets.new_entities import UNDO_CREATION
from knowledge.changesets.writes import (
    DONE,
    as_before,
    as_written,
    catalog_of,
    exclusive,
    is_creation_undone,
    note,
    value_now,
)
from knowledge.freshness import comparison
from knowledge.insights.lifecycle import require_curator, return_to_review
from knowledge.models import Change, ChangeOutcome, Changeset, ChangesetState
from memories.contract.errors import Conflict
from memories.identity.caller import Caller


@dataclass(frozen=True)
class RolledBack:
    changeset: Changeset
    reverted: list[Change] = field(default_factory=list)
    conflicts: list[Change] = field(default_factory=list)
    skipped: list[Change] = field(default_factory=list)
    insights_returned: int = 0


def roll_back(*, caller: Caller, changeset_id: UUID | str, skip_conflicts: bool = False) -> RolledBack:
    """Undo the writes of a changeset, and return its insights to review.

    If others have changed some of the written values since, nothing is undone and Conflict is raised. With
    `skip_conflicts`, those values stay as they are and all other writes are undone.
    """
    require_curator(caller)
    changeset = get_changeset(caller, changeset_id)
    if changeset.state not in (ChangesetState.APPLIED, ChangesetState.PARTIAL, ChangesetState.PLANNED):
        raise Conflict(
            f"is {changeset.get_state_display().lower()}: there is nothing to roll back", field="changeset_id"
        )
    catalog = catalog_of(changeset)
    with exclusive(changeset), comparison.keep_baselines_current(changeset):
        return _restore(caller, catalog, changeset, skip_conflicts)


def roll_back_preview(*, caller: Caller, changeset_id: UUID | str) -> list[tuple[Change, bool]]:
    """Return the changes to undo, newest first, each with True if the catalog still has the written value."""
    changeset = get_changeset(caller, changeset_id)
    catalog = catalog_of(changeset)
    return [(change, as_written(change, value_now(catalog, change))) for change in _changes_to_undo(changeset)]


def _changes_to_undo(changeset: Changeset) -> list[Change]:
    states = [ChangeOutcome.LANDED, ChangeOutcome.SENDING, ChangeOutcome.REVERTING]
    newest: dict[tuple[Any, ...], Change] = {}
    for change in changeset.changes.filter(outcome__in=states).order_by("position"):
        key = (change.urn, change.aspect, tuple(change.path))
        if first := newest.get(key):
            # Several writes to a path are undone together: the value from before the first one is restored.
            change.had_before, change.before, change.creates = first.had_before, first.before, first.creates
        newest[key] = change
    return sorted(newest.values(), key=lambda change: -change.position)


def _restore(caller: Caller, catalog: Catalog, changeset: Changeset, skip_conflicts: bool) -> RolledBack:
    changes = _changes_to_undo(changeset)
    created = {change.urn for change in changes if change.creates}
    own_changes: list[Change] = []
    conflicts: list[Change] = []
    for change in changes:
        current = value_now(catalog, change)
        resumed = (change.outcome != ChangeOutcome.LANDED and as_before(change, current)) or is_creation_undone(
            change, current
        )
        (own_changes if resumed or as_written(change, current) else conflicts).append(change)
    if conflicts and not skip_conflicts:
        paths = "; ".join(f"{change.urn} {change}" for change in conflicts[:5])
        raise Conflict(
            f"has values that others have changed since: {paths}",
            field="changeset_id",
            allowed="skip_conflicts=true, which leaves these values as they are",
        )
    run = Run(f"{changeset.run_id}-back", caller.email, {"rolls_back": changeset.pk.hex})
    for change in own_changes:
        _revert(catalog, change, run, entity_is_deleted=change.urn in created and not change.creates)
    for change in conflicts:
        note(change, ChangeOutcome.CONFLICT, "others have changed the value since, so it was left as it is")
    changeset.changes.filter(outcome=ChangeOutcome.LANDED).update(outcome=ChangeOutcome.REVERTED)
    with transaction.atomic():
        returned = return_to_review(caller, changeset)
        changeset.state = ChangesetState.ROLLED_BACK
        changeset.rolled_back_by, changeset.rolled_back_at = caller.email, timezone.now()
        changeset.save(update_fields=["state", "rolled_back_by", "rolled_back_at"])
    skipped = list(changeset.changes.filter(outcome=ChangeOutcome.NOOP))
    return RolledBack(changeset, own_changes, conflicts, skipped, returned)


def _revert(catalog: Catalog, change: Change, run: Run, *, entity_is_deleted: bool) -> None:
    current = value_now(catalog, change)
    # A change of an entity that the changeset created is undone by deleting the entity.
    if entity_is_deleted or as_before(change, current) or is_creation_undone(change, current):
        return note(change, ChangeOutcome.REVERTED)
    note(change, ChangeOutcome.REVERTING)
    catalog.write(inverse(change), run)
    note(change, ChangeOutcome.REVERTED)


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


def replay(*, caller: Caller, changeset_id: UUID | str) -> tuple[int, int]:
    """Repeat those writes of an applied changeset that the catalog has lost.

    A write also counts as lost if others have changed its value since; the value is then overwritten. Returns the
    number of repeated writes and the number of writes that the catalog still has.
    """
    require_curator(caller)
    changeset = get_changeset(caller, changeset_id)
    if changeset.state != ChangesetState.APPLIED:
        raise Conflict(f"is {changeset.state}: only an applied changeset can be replayed", field="changeset_id")
    catalog = catalog_of(changeset)
    run = Run(changeset.run_id, caller.email, {"replays": changeset.pk.hex})
    count = 0
    with exclusive(changeset):
        changes = list(changeset.changes.filter(outcome__in=DONE).order_by("position"))
        for change in changes:
            if not as_written(change, value_now(catalog, change)):
                catalog.write(
                    Write(change.urn, change.aspect, tuple(change.path), change.operation, change.written), run
                )
                count += 1
    return count, len(changes) - count
