"""The data catalog: one port, two implementations (embedded tables, a real DataHub)."""

from __future__ import annotations

from django.conf import settings

from knowledge.catalog.interface import Catalog


def current() -> Catalog:
    """The configured catalog: DataHub where DATAHUB_GMS_URL is set, otherwise our own tables. For writing, and for
    whatever has to know what stands there now."""
    if settings.DATAHUB_GMS_URL:
        from knowledge.catalog.datahub import DataHubCatalog  # noqa: PLC0415 - a second of SDK, only where configured
        from knowledge.catalog.local_entities import WithLocalEntities  # noqa: PLC0415 - the same

        return WithLocalEntities(DataHubCatalog.configured())
    from knowledge.catalog.embedded import LocalCatalog  # noqa: PLC0415 - as its neighbour

    return LocalCatalog()


def identity() -> str:
    """Which catalog it is: what was seen in one tells nothing of another."""
    return f"datahub {settings.DATAHUB_GMS_URL}"[:200] if settings.DATAHUB_GMS_URL else "local"


def readable() -> Catalog:
    """The same for showing and comparing: while DataHub is away, its copy answers, where one was made."""
    if settings.DATAHUB_GMS_URL:
        from knowledge.catalog.mirror import MirroredCatalog  # noqa: PLC0415 - as in current()

        return MirroredCatalog(current())
    return current()


def copy_note(catalog: Catalog) -> str:
    """That what was just read came from the copy, and how old that is; nothing where it did not."""
    copied_at = getattr(catalog, "copied_at", None)
    return f"DataHub is away: this is from the copy of {copied_at:%Y-%m-%d %H:%M} UTC" if copied_at else ""
