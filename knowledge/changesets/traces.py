"""Changes in the catalog that go back to memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from foundation.people.caller import Caller
from knowledge.models import Change, ChangeOutcome, Changeset

WRITTEN = (ChangeOutcome.LANDED, ChangeOutcome.REVERTING, ChangeOutcome.REVERTED, ChangeOutcome.KEPT)
MAX_TRACES = 10  # changesets, the newest


@dataclass(frozen=True)
class Trace:
    """A changeset that applied one of the memories, with the entities that it has written to."""

    changeset: Changeset
    urns: list[str]


def traces_of(caller: Caller, record_ids: Sequence[UUID]) -> list[Trace]:
    """Return the changesets of these memories that the caller may see, newest first, also those rolled back."""
    ids = [pk.hex for pk in record_ids]
    changesets = list(Changeset.objects.visible_to(caller).filter(insight_ids__has_any_keys=ids)[:MAX_TRACES])
    if not changesets:
        return []
    changes = Change.objects.filter(changeset__in=changesets, outcome__in=WRITTEN).order_by("changeset", "position")
    urns: dict[UUID, dict[str, None]] = {changeset.pk: {} for changeset in changesets}
    for pk, urn in changes.values_list("changeset", "urn"):
        urns[pk][urn] = None
    return [Trace(changeset, list(urns[changeset.pk])) for changeset in changesets]
