"""Changes in DataHub, found in its event stream or by copying it again.

Memories about changed entities are compared with the catalog at once. The scheduled check of all entities finds the
changes that are missed here.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.utils import timezone

from foundation.database import locks
from knowledge.catalog import mirror
from knowledge.catalog.datahub import DataHubCatalog
from knowledge.catalog.mirror import Mirrored
from knowledge.freshness import stale_detection
from knowledge.models import CatalogCursor

CURSOR = "events"
WAIT_S = 30  # maximum number of seconds that one poll waits for an event


def copy_catalog(catalog: mirror.Mirrorable) -> Iterator[Mirrored]:
    """Copy the catalog, compare the memories about changed entities, and yield the running count after each page.

    Raises CatalogUnavailable or CatalogRefused.
    """
    for count in mirror.mirror(catalog):
        if count.changed:
            stale_detection.check_entities(count.changed)
        yield count


def follow_once(wait_s: int = WAIT_S) -> stale_detection.CheckReport:
    """Poll for events once, handle them, and then save the offset.

    The offset is not saved if the memories could not be compared. Then, and after a crash, the same events are polled
    again, so none is lost. Raises CatalogUnavailable, CatalogRefused, or LeaseLost.
    """
    cursor = CatalogCursor.objects.filter(name=CURSOR).first()
    urns, offset = DataHubCatalog.configured().poll_events(cursor.value if cursor else "", wait_s)
    if urns and mirror.last_copied_at():  # keep an existing copy current
        mirror.copy(DataHubCatalog.configured(), urns)
    report = stale_detection.check_entities(urns) if urns else stale_detection.CheckReport()
    if not report.note:
        defaults = {"value": offset, "updated_at": timezone.now()}
        with locks.fenced():
            CatalogCursor.objects.update_or_create(name=CURSOR, defaults=defaults)
    return report
