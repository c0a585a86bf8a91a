"""Application of the changes that insights suggest, and one preview for several insights."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.utils.translation import gettext

from foundation.operations.errors import Conflict
from foundation.people.caller import Caller
from knowledge.catalog import entity_view
from knowledge.catalog.current import get_readable_catalog
from knowledge.catalog.interface import CatalogRefused, CatalogUnavailable
from knowledge.catalog.snapshot import CatalogSnapshot
from knowledge.changesets import risk, rollback
from knowledge.changesets.apply import apply as apply_changes
from knowledge.freshness.baselines import urns_of
from knowledge.insights import queries
from knowledge.insights.seen import require_unchanged
from knowledge.models import Changeset, ChangesetState, Insight, InsightState
from knowledge.operations import Apply
from knowledge.review.review_page import CatalogEffect, effect_of

MAX_PREVIEWED = 200  # maximum number of insights in one preview


def apply(caller: Caller, *, insight_id: UUID | str, seen: str = "") -> Changeset:
    """Apply the changes that an approved insight suggests, and return the changeset.

    `seen` is the token of insights/seen.py for the state that the curator saw. If the insight is already applied,
    nothing is written. The changeset may wait for a second approval. Raises ChangedMeanwhile if the insight is in
    another state, and Conflict if not all changes were written.
    """
    insight = queries.insight(caller, insight_id)
    if insight.state == InsightState.APPLIED and insight.changeset:
        if insight.applied_by != caller.email:  # a curator who saw it unapplied is told who applied it
            require_unchanged(insight, seen, override=False)
        return insight.changeset
    require_unchanged(insight, seen, override=False)  # what is written below comes from the insight compared here
    applied = apply_changes(
        caller,
        Apply.read(
            {
                "insight_ids": [insight.pk.hex],
                "changes": queries.proposals([insight]),
                "entity_urn": next(iter(insight.record.entity_urns), ""),
            }
        ),
    )
    if applied.changeset.state not in (ChangesetState.APPLIED, ChangesetState.WAITING):
        raise Conflict(
            gettext("was not applied completely (%(error)s)") % {"error": applied.changeset.error}, field="insight_id"
        )
    return applied.changeset


def apply_at_once(caller: Caller, *, insight_id: UUID | str, seen: str = "") -> Changeset:
    """Apply like `apply`, for a bulk action that reports what was applied. Raises Conflict if it waits instead."""
    changeset = apply(caller, insight_id=insight_id, seen=seen)
    if changeset.state == ChangesetState.WAITING:
        raise Conflict(
            gettext("waits for a second approval: %(reasons)s") % {"reasons": "; ".join(risk.in_words(changeset.risks))}
        )
    return changeset


def roll_back(caller: Caller, *, insight_id: UUID | str, until: datetime | None = None) -> None:
    """Roll back the changeset that has applied an insight. With `until`, it must not be later than that."""
    insight = queries.insight(caller, insight_id)
    if insight.changeset_id is None:
        raise Conflict(
            gettext("is %(state)s: there is nothing to roll back") % {"state": insight.state}, field="insight_id"
        )
    if until is not None and insight.changeset and insight.changeset.created_at > until:
        raise Conflict(gettext("was applied again since then"), field="insight_id")
    rollback.roll_back(caller, changeset_id=insight.changeset_id)


@dataclass(frozen=True)
class SuggestedEntry:
    insight: Insight
    effect: CatalogEffect


@dataclass(frozen=True)
class SuggestedPreview:
    """The effects of applying several insights, by entity, and the insights that can't be applied as they are."""

    by_entity: list[tuple[str, list[SuggestedEntry]]] = field(default_factory=list)
    impossible: list[SuggestedEntry] = field(default_factory=list)

    @property
    def possible(self) -> list[SuggestedEntry]:
        return [entry for _, entries in self.by_entity for entry in entries]

    @property
    def change_count(self) -> int:
        return sum(entry.effect.writes for entry in self.possible)


def preview(insights: Sequence[Insight]) -> SuggestedPreview:
    """Plan the changes that these insights suggest against the current catalog. Nothing is written."""
    catalog = CatalogSnapshot(get_readable_catalog())
    urns = sorted({urn for insight in insights for urn in urns_of(insight.record)})
    if urns:
        with contextlib.suppress(CatalogUnavailable, CatalogRefused):  # effect_of reports the outage
            catalog.read(urns, entity_view.ASPECTS)
    entries = [SuggestedEntry(insight, effect_of(insight, catalog)) for insight in insights]
    by_entity: dict[str, list[SuggestedEntry]] = {}
    for entry in entries:
        if entry.effect.is_possible:
            by_entity.setdefault(entry.effect.entity_urn, []).append(entry)
    impossible = [entry for entry in entries if not entry.effect.is_possible]
    return SuggestedPreview(sorted(by_entity.items()), impossible)
