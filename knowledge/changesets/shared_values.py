"""Catalog values that the insights of several changesets rest on.

If a changeset finds a value present that an earlier one has written, rolling back the earlier one keeps the value. The
later changeset then counts as its writer, with the value from before the first write, so that its own rollback removes
the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Q

from knowledge.catalog.json_patch import equal
from knowledge.models import Change, ChangeOutcome, Changeset, ChangesetState

IN_PLACE = (ChangeOutcome.LANDED, ChangeOutcome.NOOP)


def heirs_of(changeset: Changeset, changes: Sequence[Change]) -> dict[int, list[Change]]:
    """Return the changes of other changesets that rest on the same values, oldest first, by the change's position."""
    rule = Q(pk__in=[])
    for change in changes:
        rule |= Q(urn=change.urn, aspect=change.aspect, path=change.path, operation=change.operation)
    rows = _others(changeset).filter(rule, outcome__in=IN_PLACE) if changes else Change.objects.none()
    by_place: dict[tuple[Any, ...], list[Change]] = {}
    for row in rows.order_by("changeset__created_at", "position"):
        by_place.setdefault(_place(row), []).append(row)
    heirs = {
        change.position: [row for row in by_place.get(_place(change), []) if _is_same_value(change, row)]
        for change in changes
    }
    return {position: rows for position, rows in heirs.items() if rows}


def pass_on(change: Change, heirs: Sequence[Change]) -> None:
    """Make the oldest heir the writer of the value of a change that is rolled back."""
    heir = heirs[0]
    if heir.outcome == ChangeOutcome.NOOP:
        Change.objects.filter(pk=heir.pk).update(
            outcome=ChangeOutcome.LANDED, creates=change.creates, **_before(change)
        )


def pass_on_before(changeset: Changeset, change: Change) -> None:
    """Let a later changeset restore what was there before `change`, whose value the later one has overwritten.

    Otherwise its rollback would bring back a value that was rolled back.
    """
    later = _others(changeset).filter(
        urn=change.urn, aspect=change.aspect, path=change.path, outcome=ChangeOutcome.LANDED, had_before=True
    )
    for row in later.order_by("changeset__created_at", "position"):
        if change.operation == "add" and equal(row.before, change.written):
            Change.objects.filter(pk=row.pk).update(**_before(change))
            return


def _before(change: Change) -> dict[str, Any]:
    return {"had_before": change.had_before, "before": change.before, "before_erased": change.before_erased}


def _others(changeset: Changeset) -> Any:
    states = [ChangesetState.APPLIED, ChangesetState.PARTIAL]
    rows = Change.objects.filter(changeset__state__in=states, changeset__catalog=changeset.catalog)
    return rows.exclude(changeset=changeset).select_related("changeset")


def _place(change: Change) -> tuple[Any, ...]:
    return change.urn, change.aspect, tuple(change.path), change.operation


def _is_same_value(change: Change, other: Change) -> bool:
    return change.operation == "remove" or equal(change.written, other.written)
