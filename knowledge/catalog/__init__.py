"""The data catalog: one port, two implementations (embedded tables, a real DataHub)."""

from __future__ import annotations

from django.conf import settings

from knowledge.catalog.port import CatalogPort


def current() -> CatalogPort:
    """The configured catalog: DataHub where DATAHUB_GMS_URL is set, otherwise our own tables."""
    if settings.DATAHUB_GMS_URL:
        from knowledge.catalog.datahub import DataHubCatalog  # noqa: PLC0415 - a second of SDK, only where configured
        from knowledge.catalog.own import WithOwnEntities  # noqa: PLC0415 - the same

        return WithOwnEntities(DataHubCatalog.configured())
    from knowledge.catalog.local import LocalCatalog  # noqa: PLC0415 - as its neighbour

    return LocalCatalog()
