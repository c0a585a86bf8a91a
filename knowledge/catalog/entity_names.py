"""Names of entities for pages. The URN of a term or document that was created here ends in an id."""

from __future__ import annotations

import re

from django.core.cache import caches

from knowledge.catalog.entity_view import short_name
from knowledge.models import CatalogEntity

ID = re.compile(r"urn:li:[A-Za-z]+:[0-9a-f-]{32,36}")
KEPT_S = 60  # seconds that a process keeps a name


def display_name(urn: str) -> str:
    """Return the readable part of a URN, or the entity's name if that part is an id."""
    if not ID.fullmatch(urn):
        return short_name(urn)
    key = f"entity-name-{urn}"
    name: str | None = caches["process"].get(key)
    if name is None:
        name = CatalogEntity.objects.filter(urn=urn).values_list("name", flat=True).first() or ""
        caches["process"].set(key, name, KEPT_S)
    return name or short_name(urn)
