"""Entities that are new in the catalog, for memories that already mention them."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from knowledge.models import CatalogAspect, CatalogCursor, CatalogEntity
from memories.writing import entity_detection

CURSOR = "linked entities"  # name of the CatalogCursor with the time up to which new entities were looked up
# A transaction that writes entities may commit after later ones were looked up.
OVERLAP = timedelta(minutes=15)


def look_for_new_entities() -> int:
    """Mark memories that name an entity that is new since the last run for detection; return their number."""
    now = timezone.now()
    cursor = CatalogCursor.objects.filter(name=CURSOR).first()
    count = 0
    if cursor is None:  # the first run: stored memories were marked when their column was added
        CatalogCursor.objects.create(name=CURSOR, updated_at=now)
        return 0
    new_urns = CatalogAspect.objects.filter(version=1, created_at__gt=cursor.updated_at - OVERLAP).values("urn")
    rows = CatalogEntity.objects.filter(urn__in=new_urns, removed=False, entity_type="dataset")
    if names := sorted(set(rows.values_list("tail", flat=True)[: entity_detection.MAX_NAMES + 1])):
        count = entity_detection.detect_again(names)
    CatalogCursor.objects.filter(name=CURSOR).update(updated_at=now)
    return count
