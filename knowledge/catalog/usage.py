"""The entities that refer to another entity in their aspects, for example the data sets that carry a glossary term."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db.models import TextField
from django.db.models.functions import Cast

from knowledge.catalog.entity_view import short_name
from knowledge.catalog.interface import entity_type
from knowledge.catalog.local_entities import LOCAL_TYPES
from knowledge.catalog.mirror import last_copied_at
from knowledge.models import CatalogAspect, CatalogEntity

MAX_NAMED = 5  # maximum number of users that a sentence names


@dataclass(frozen=True)
class CatalogUsage:
    urn: str
    name: str
    users: Mapping[str, str] = field(default_factory=dict)  # URN → name, ordered by name
    note: str = ""  # how far the users are known; empty if all of them are
    is_unknown: bool = False

    def __str__(self) -> str:
        named = list(self.users.values())
        more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
        users = f"{self.name} is used by {', '.join(named[:MAX_NAMED])}{more}" if named else self.name
        return f"{users} ({self.note})" if self.note else users


def usage_of(urn: str, name: str, ignored: Mapping[tuple[str, str], Any]) -> CatalogUsage:
    """Return the entities with aspects that contain the URN, without removed ones and the entity itself.

    `ignored` maps an entity's URN and an aspect's name to values whose references don't count. The users of an entity
    in DataHub are those in its local copy.
    """
    note = ""
    if settings.DATAHUB_GMS_URL and entity_type(urn) not in LOCAL_TYPES:
        copied_at = last_copied_at()
        if copied_at is None:
            return CatalogUsage(
                urn, name, note="its users are unknown, because DataHub was not copied", is_unknown=True
            )
        note = f"by the copy of DataHub of {copied_at:%Y-%m-%d %H:%M} UTC"
    quoted = json.dumps(urn, ensure_ascii=False)
    rows = CatalogAspect.objects.filter(is_latest=True, value__isnull=False).exclude(urn=urn)
    rows = rows.annotate(text=Cast("value", TextField())).filter(text__contains=quoted)
    users: Counter[str] = Counter()
    for user, aspect, text in rows.values_list("urn", "aspect", "text"):
        users[user] += text.count(quoted) - json.dumps(ignored.get((user, aspect)), ensure_ascii=False).count(quoted)
    entities = CatalogEntity.objects.filter(urn__in=[user for user, count in users.items() if count > 0], removed=False)
    named = sorted((str(entity) or short_name(entity.urn), entity.urn) for entity in entities.defer("search"))
    return CatalogUsage(urn, name, {user: label for label, user in named}, note)
