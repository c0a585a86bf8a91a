"""Baselines: snapshots of the catalog entities that a memory refers to, taken when it is written or verified.

Staleness detection compares them with the current catalog (see comparison.py).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.utils import timezone

from knowledge.catalog import entity_view, identity
from knowledge.catalog.current import get_catalog
from knowledge.catalog.interface import Catalog, CatalogRefused, CatalogUnavailable
from knowledge.models import EntityBaseline
from memories.models import MemoryRecord

# Aspects that a baseline is made from. Descriptions don't make a memory stale, but are evidence in reviews.
DESCRIBING = {aspect for texts in entity_view.DESCRIPTIONS.values() for aspect, _ in texts}
WATCHED = tuple(sorted({"status", "deprecation", "schemaMetadata", "glossaryTermInfo", "documentInfo"} | DESCRIBING))


@dataclass(frozen=True)
class EntitySnapshot:
    """Current state of an entity, as far as staleness checks and reviews need it."""

    exists: bool
    deprecated: bool = False
    note: str = ""
    replacement: str = ""
    columns: Mapping[str, Sequence[object]] = field(default_factory=dict)  # simple path → [native type, nullable]
    description_hash: str = ""

    @property
    def fingerprint(self) -> str:
        parts = [self.exists, self.deprecated, sorted((name, list(kind)) for name, kind in self.columns.items())]
        return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def read_entities(catalog: Catalog, urns: Iterable[str]) -> dict[str, EntitySnapshot]:
    """Read the state of these entities in one bulk read. Raises CatalogUnavailable or CatalogRefused."""
    unique_urns = sorted(set(urns))
    entities = {}
    for urn, read in catalog.read(unique_urns, WATCHED).items():
        aspects = {name: aspect.value for name, aspect in read.items() if aspect.value is not None}
        entity = entity_view.parse_entity(urn, aspects)
        columns = {column.simple_path: [column.native_type, column.nullable] for column in entity.columns}
        deprecation = aspects.get("deprecation") or {}
        entities[urn] = EntitySnapshot(
            exists=bool(aspects) and not entity.removed,
            deprecated=entity.deprecated,
            note=entity.deprecation_note,
            replacement=str(deprecation.get("replacement") or ""),
            columns=columns,
            description_hash=hash_of(entity.description),
        )
    return entities


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest() if text else ""


def save_baselines(records: Sequence[MemoryRecord], entities: Mapping[str, EntitySnapshot]) -> int:
    """Save the state of the entities that these records refer to, and return the number of saved baselines.

    Baselines of entities that a record no longer refers to are deleted.
    """
    now, catalog = timezone.now(), identity()
    rows = [
        EntityBaseline(
            record=record,
            catalog=catalog,
            urn=urn,
            existed=entities[urn].exists,
            deprecated=entities[urn].deprecated,
            columns=entities[urn].columns,
            mentioned=mentioned(record.content, entities[urn].columns),
            description_hash=entities[urn].description_hash,
            taken_at=now,
            checked_at=now,
        )
        for record in records
        for urn in urns_of(record)
        if urn in entities
    ]
    columns = ["catalog", "existed", "deprecated", "columns", "mentioned", "description_hash"]
    EntityBaseline.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["record", "urn"],
        update_fields=[*columns, "taken_at", "checked_at", "to_verify", "hint"],
        batch_size=500,
    )
    for record in records:
        EntityBaseline.objects.filter(record=record).exclude(urn__in=urns_of(record)).delete()
    return len(rows)


def take_baselines(record_ids: Iterable[UUID]) -> int:
    """Take the baselines of these memories from the catalog, and return their number.

    Returns 0 if the catalog can't be read. The scheduled check later takes the baselines of active memories that have
    none.
    """
    records = list(MemoryRecord.objects.filter(pk__in=list(record_ids)).defer("search"))
    without_urns = [record.pk for record in records if not urns_of(record)]
    EntityBaseline.objects.filter(record__in=without_urns).delete()
    records = [record for record in records if urns_of(record)]
    if not records:
        return 0
    try:
        entities = read_entities(get_catalog(), {urn for record in records for urn in urns_of(record)})
    except (CatalogUnavailable, CatalogRefused):
        return 0
    return save_baselines(records, entities)


def urns_of(record: MemoryRecord) -> list[str]:
    return list(dict.fromkeys([*record.entity_urns, *(column["urn"] for column in record.related_columns)]))


def mentioned(text: str, columns: Iterable[str]) -> list[str]:
    """Return the columns that the text names as whole words.

    A column is named by its dotted path, or by the last step of its path if that has more than one character. Case is
    ignored.
    """
    words = {word.casefold() for word in re.findall(r"\w+", text)}
    lowered = text.casefold()
    mentions = []
    for path in columns:
        last = path.rpartition(".")[2].casefold()
        by_path = "." in path and re.search(rf"(?<!\w){re.escape(path.casefold())}(?!\w)", lowered)
        if by_path or (len(last) > 1 and (last in words or _contains_name(last, lowered))):
            mentions.append(path)
    return sorted(mentions)


def _contains_name(name: str, text: str) -> bool:
    # Only needed for names that `\w+` does not match as a whole, such as `net-revenue`.
    return not name.isidentifier() and bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text))
