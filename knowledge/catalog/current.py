"""The configured catalog: DataHub if DATAHUB_GMS_URL is set, otherwise the embedded one."""

from __future__ import annotations

from django.conf import settings

from knowledge.catalog.datahub import DataHubCatalog
from knowledge.catalog.embedded import LocalCatalog
from knowledge.catalog.interface import Catalog
from knowledge.catalog.local_entities import WithLocalEntities
from knowledge.catalog.mirror import MirroredCatalog


def get_catalog() -> Catalog:
    """Return the catalog for writes, and for reads that need its current state."""
    return WithLocalEntities(DataHubCatalog.configured()) if settings.DATAHUB_GMS_URL else LocalCatalog()


def get_readable_catalog() -> Catalog:
    """Return the catalog for display and comparison. While DataHub is unavailable, it reads the local copy, if any."""
    return MirroredCatalog(get_catalog()) if settings.DATAHUB_GMS_URL else get_catalog()


def copy_note(catalog: Catalog) -> str:
    """Return a warning if the last read came from the copy, otherwise an empty string."""
    copied_at = getattr(catalog, "copied_at", None)
    return f"DataHub is unavailable: the data is from the copy of {copied_at:%Y-%m-%d %H:%M} UTC" if copied_at else ""
