"""Catalog writes of our own changesets: they don't make the changeset's own insights stale."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from knowledge.catalog import identity
from knowledge.catalog.current import get_catalog
from knowledge.catalog.interface import CatalogRefused, CatalogUnavailable
from knowledge.freshness.baselines import EntitySnapshot, read_entities
from knowledge.freshness.stale_detection import check_entities
from knowledge.models import ChangeOutcome, Changeset, EntityBaseline


@contextlib.contextmanager
def keep_baselines_current(changeset: Changeset) -> Iterator[None]:
    """Update the baselines of the changeset's own insights after the writes in this block.

    Otherwise applying an insight would make that same insight stale. Then all memories about the changed entities are
    compared with the new state.
    """
    urns = set(changeset.changes.values_list("urn", flat=True))
    before = _read_if_available(urns)
    yield
    after = _read_if_available(before) or _as_written(changeset, before)
    for urn, entity in after.items():
        old = before[urn]
        if old != entity:
            rows = EntityBaseline.objects.filter(urn=urn, record__in=changeset.insight_ids, catalog=identity())
            # Update only baselines that matched before the writes: older differences must still make a memory stale.
            matches = rows.filter(existed=old.exists, deprecated=old.deprecated)
            matches.update(
                existed=entity.exists, deprecated=entity.deprecated, description_hash=entity.description_hash
            )
    check_entities(urns)


def _as_written(changeset: Changeset, before: Mapping[str, EntitySnapshot]) -> dict[str, EntitySnapshot]:
    """Return the entities as the changeset has left them, without reading the catalog, which has become unavailable."""
    entities = dict(before)
    reverted = (ChangeOutcome.REVERTING, ChangeOutcome.REVERTED)
    written = (ChangeOutcome.SENDING, ChangeOutcome.LANDED)
    changes = changeset.changes.filter(aspect="deprecation", outcome__in=[*reverted, *written])
    for change in changes.order_by("position"):
        value = change.before if change.outcome in reverted else change.written
        if change.urn in entities:
            entities[change.urn] = replace(entities[change.urn], deprecated=bool((value or {}).get("deprecated")))
    return entities


def _read_if_available(urns: Iterable[str]) -> dict[str, EntitySnapshot]:
    try:
        return read_entities(get_catalog(), urns)
    except (CatalogUnavailable, CatalogRefused):
        return {}
