"""DataHub's event stream: memories about an entity are compared within seconds of its change.

The sweep stays as the net: an event that is missed here is found there.
"""

from __future__ import annotations

from django.utils import timezone

from knowledge.catalog import mirror
from knowledge.catalog.datahub import DataHubCatalog
from knowledge.freshness import comparison
from knowledge.models import CatalogCursor

CURSOR = "events"
WAIT_S = 30  # how long one poll waits for an event


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
