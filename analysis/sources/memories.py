"""The built-in, read-only source of the memories that the caller may see.

Memories of conversations are left out. With this source, the analysis tools work without any other system.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from functools import cache
from typing import Any

from analysis.sources.declaration import Attribute, Filter, Resource
from analysis.sources.envelopes import PageOf, Row
from analysis.sources.interface import UpstreamFailed
from foundation.people.caller import Caller
from memories.models import Category, Confidence, Dimension, MemoryRecord, Status
from memories.models.record import MemoryRecordQuerySet

MODEL = "memory"
FIELDS = (
    "id", "content", "dimension", "category", "confidence", "source", "status", "visibility", "persona", "created_by",
    "tags", "entity_urns", "stale_reason", "created_at", "updated_at", "last_verified_at",
)  # fmt: skip


@cache  # built and validated at first use, to keep startup fast
def resource() -> Resource:
    return Resource(
        name=MODEL,
        description="The memories that you may see.",
        per_page_max=1000,
        attributes={
            "content": Attribute(type="text", description="What is remembered."),
            "dimension": Attribute(type="enum", values=tuple(Dimension.values)),
            "category": Attribute(type="enum", values=tuple(Category.values)),
            "confidence": Attribute(type="enum", values=tuple(Confidence.values)),
            "status": Attribute(type="enum", values=tuple(Status.values)),
            "persona": Attribute(),
            "created_by": Attribute(description="The owner's e-mail address."),
            "tags": Attribute(type="array"),
            "entity_urns": Attribute(type="array", description="DataHub URNs."),
            "created_at": Attribute(type="datetime"),
            "last_verified_at": Attribute(type="datetime"),
        },
        filters={
            "status": Filter(type="enum", values=tuple(Status.values)),
            "category": Filter(type="enum", values=tuple(Category.values)),
            "dimension": Filter(type="enum", values=tuple(Dimension.values)),
            "persona": Filter(),
            "created_by": Filter(),
            "created_at": Filter(type="date_range"),
        },
    )


class MemoryUpstream:
    at_once = 1

    def __init__(self, caller: Caller) -> None:
        self.resource = resource()
        self._caller = caller

    def _rows(self) -> MemoryRecordQuerySet:
        return MemoryRecord.objects.visible_to(self._caller).facts()

    def page(self, number: int, per_page: int, filters: Mapping[str, Any], cursor: str = "") -> PageOf:
        rows = self._rows()
        for name, value in filters.items():
            if name == "created_at":
                ends = {"from": "created_at__gte", "to": "created_at__lte"}
                rows = rows.filter(**{ends[end]: at for end, at in value.items() if at is not None})
            else:
                rows = rows.filter(**{f"{name}__in": value if isinstance(value, list) else [value]})
        total = rows.count()
        start = (number - 1) * per_page
        page_rows = rows.order_by("created_at", "id").values(*FIELDS)[start : start + per_page]
        return PageOf([_plain(row) for row in page_rows], max(math.ceil(total / per_page), 1), total)

    def close(self) -> None:
        pass

    def children(self, parent_id: str, path: str, number: int, per_page: int, cursor: str = "") -> PageOf:
        raise UpstreamFailed("memories have no nested resources")

    def read(self, record_id: str) -> Row | None:
        row = self._rows().filter(pk=record_id).values(*FIELDS).first()
        return _plain(row) if row else None

    def update(self, record_id: str, attributes: Mapping[str, Any]) -> int:
        raise UpstreamFailed("memories are changed with memory_manage")

    def delete(self, record_id: str) -> int:
        raise UpstreamFailed("memories are forgotten with memory_manage")


def _plain(row: Mapping[str, Any]) -> Row:
    plain = dict(row)
    for name, value in row.items():
        if name == "id":
            plain[name] = value.hex
        elif isinstance(value, date):
            plain[name] = value.isoformat()
    return plain
