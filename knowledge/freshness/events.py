"""Changes in DataHub, from its event stream or a new copy: memories about what changed are compared at once.

The regular check of all entities finds whatever is missed here.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.utils import timezone

from knowledge.catalog import mirror
from knowledge.catalog.datahub import DataHubCatalog
from knowledge.catalog.mirror import Mirrored
from knowledge.freshness import comparison
from knowledge.models import CatalogCursor

CURSOR = "events"
WAIT_S = 30  # how long one poll waits for an event


def copy_catalog(catalog: mirror.Mirrorable) -> Iterator[Mirrored]:
    """Copy the whole catalog page by page and yield the running count. Raises CatalogUnavailable or CatalogRefused."""
    for count in mirror.mirror(catalog):
        if count.changed:
            comparison.check_entities(count.changed)
        yield count


def follow_once(wait_s: int = WAIT_S) -> comparison.CheckReport:
    """One long poll, its events dealt with, and then its offset kept: a kill in between repeats and loses nothing.

    Raises CatalogUnavailable or CatalogRefused.
    """
    cursor = CatalogCursor.objects.filter(name=CURSOR).first()
    urns, offset = DataHubCatalog.configured().poll_events(cursor.value if cursor else "", wait_s)
    if urns and mirror.age():  # the copy follows, once there is one
        mirror.copy(DataHubCatalog.configured(), urns)
    swept = comparison.check_entities(urns) if urns else comparison.CheckReport()
    if not swept.note:
        defaults = {"value": offset, "updated_at": timezone.now()}
        CatalogCursor.objects.update_or_create(name=CURSOR, defaults=defaults)
    return swept
