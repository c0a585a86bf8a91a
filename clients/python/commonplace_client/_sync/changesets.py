# Written by write_sync.py from commonplace_client/_async. Change that, and run it again.
"""Changesets: changes of the data catalog, planned, applied and rolled back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from uuid import UUID

from commonplace_client import types
from commonplace_client._sync.connection import Connection
from commonplace_client._values import body, path_id, query


def _path(changeset_id: str | UUID, verb: str = "") -> str:
    return f"changesets/{path_id('changeset_id', changeset_id)}/" + (f"{verb}/" if verb else "")


class Changesets(Connection):
    def plan(
        self, insight_ids: Sequence[str], changes: Sequence[types.Change], *, entity_urn: str | None = None
    ) -> types.Plan:
        """Preview changes of the catalog that come from approved insights. Nothing is written."""
        arguments = body(insight_ids=insight_ids, changes=changes, entity_urn=entity_urn)
        answer: types.Plan = self._post("changesets/plan/", arguments)
        return answer

    def apply(
        self, insight_ids: Sequence[str], changes: Sequence[types.Change], *, entity_urn: str | None = None
    ) -> types.Applied:
        """Write changes to the catalog, or let risky ones wait for a second approval: `state` is then `waiting`."""
        arguments = body(insight_ids=insight_ids, changes=changes, entity_urn=entity_urn)
        answer: types.Applied = self._post("changesets/", arguments)
        return answer

    def changesets(
        self,
        *,
        state: types.ChangesetState | None = None,
        entity_urn: str | None = None,
        applied_by: str | None = None,
        created_after: datetime | str | None = None,
        created_before: datetime | str | None = None,
        order: types.Order | None = None,
        page_size: int = 100,
    ) -> Iterator[types.Changeset]:
        """Iterate over all changesets that you may see and that match."""
        filters = query(
            state=state,
            entity_urn=entity_urn,
            applied_by=applied_by,
            created_after=created_after,
            created_before=created_before,
            order=order,
            limit=page_size,
        )
        return self._items("changesets/", filters)

    def changeset(self, changeset_id: str | UUID) -> types.Changeset:
        """Return a changeset with its changes."""
        answer: types.Changeset = self._get(_path(changeset_id))
        return answer

    def approve_changeset(self, changeset_id: str | UUID, *, review_notes: str | None = None) -> types.Applied:
        """Give the second approval of a risky changeset, which is then written."""
        answer: types.Applied = self._post(_path(changeset_id, "approve"), body(review_notes=review_notes))
        return answer

    def decline_changeset(self, changeset_id: str | UUID, *, review_notes: str | None = None) -> types.Declined:
        """Decline a changeset that waits for a second approval, or withdraw your own. Nothing is written."""
        answer: types.Declined = self._post(_path(changeset_id, "decline"), body(review_notes=review_notes))
        return answer

    def resume(self, changeset_id: str | UUID) -> types.Applied:
        """Continue a changeset of which only a part was written."""
        answer: types.Applied = self._post(_path(changeset_id, "resume"), {})
        return answer

    def plan_roll_back(self, changeset_id: str | UUID, *, skip_conflicts: bool | None = None) -> types.Plan:
        """Preview a roll-back. Nothing is written."""
        arguments = body(skip_conflicts=skip_conflicts)
        answer: types.Plan = self._post(_path(changeset_id, "roll-back/plan"), arguments)
        return answer

    def roll_back(self, changeset_id: str | UUID, *, skip_conflicts: bool | None = None) -> types.RolledBack:
        """Restore the values from before a changeset. Values that others changed since raise Conflict, or are left."""
        arguments = body(skip_conflicts=skip_conflicts)
        answer: types.RolledBack = self._post(_path(changeset_id, "roll-back"), arguments)
        return answer
