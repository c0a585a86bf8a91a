"""Baselines: snapshots of the catalog entities that a memory refers to, taken when it is written or verified.

Staleness detection compares them with the current catalog (see stale_detection.py).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from knowledge.catalog import entity_view, identity
from knowledge.catalog.interface import Catalog
from knowledge.models import Due, EntityBaseline
from memories.models import IN_USE, MemoryRecord, Status
from memories.writing.revision import STATEMENT_FIELDS

# Aspects that a baseline is made from. Descriptions don't make a memory stale, but are evidence in reviews.
DESCRIBING = {aspect for texts in entity_view.DESCRIPTIONS.values() for aspect, _ in texts}
WATCHED = tuple(sorted({"status", "deprecation", "schemaMetadata", "glossaryTermInfo", "documentInfo"} | DESCRIBING))

UNDOES = {"undo": "verify", "undo_review": "approve_edit"}  # change → the change whose baselines it takes back
REPLACED = ("catalog", "existed", "deprecated", "columns", "mentioned", "description_hash", "to_verify", "hint")


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


def save_baselines(missing: Iterable[tuple[MemoryRecord, str]], entities: Mapping[str, EntitySnapshot]) -> int:
    """Save the state of entities as baselines of records, and return the number of saved baselines.

    `missing` has pairs of a record and the URN of an entity. Entities that were not read are skipped.
    """
    now = timezone.now()
    catalog = identity()
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
        for record, urn in missing
        if urn in entities
    ]
    columns = ["catalog", "existed", "deprecated", "columns", "mentioned", "description_hash"]
    EntityBaseline.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["record", "urn"],
        update_fields=[*columns, "taken_at", "checked_at", "to_verify", "hint", "due"],
        batch_size=500,
    )
    return len(rows)


def note_change(record: MemoryRecord, change: str, before: Mapping[str, Any]) -> bool:
    """Note which baselines a change of a memory replaces or brings back.

    Return whether `stale_detection.catch_up` has to be called: it takes and compares the baselines that are due. An
    existing baseline is replaced by a verification, by an edit of the text, and by an edit of the columns of its
    entity. A memory that becomes active again keeps its baselines, and is compared.
    """
    is_edited = any(before[name] != getattr(record, name) for name in STATEMENT_FIELDS)
    is_undone = change in UNDOES and (is_edited or before["last_verified_at"] != record.last_verified_at)
    is_reactivated = before["status"] != record.status and (
        (before["status"] not in IN_USE and record.status in IN_USE)
        or (record.status == Status.ACTIVE and change != "mark_fresh")
    )
    if not (is_edited or is_undone or is_reactivated or change == "verify"):
        return False
    if is_edited:
        _expect(record)
    if is_undone:
        _bring_back(record, UNDOES[change])
    elif is_edited or change == "verify":
        _replace(record, change, _concerned(record, change, before))
    if is_reactivated or is_undone:
        EntityBaseline.objects.filter(record=record, due=Due.NOTHING).update(due=Due.COMPARE)
    return True


def _expect(record: MemoryRecord) -> None:
    """Add the missing baselines of a record as due, and delete those of entities that it no longer refers to."""
    urns = urns_of(record)
    rows = EntityBaseline.objects.filter(record=record)
    rows.exclude(urn__in=urns).delete()
    known = set(rows.values_list("urn", flat=True))
    missing = [urn for urn in urns if urn not in known]
    EntityBaseline.objects.bulk_create(
        EntityBaseline(record=record, catalog=identity(), urn=urn, existed=False, taken_at=None, due=Due.TAKE)
        for urn in missing
    )


def _concerned(record: MemoryRecord, change: str, before: Mapping[str, Any]) -> list[str]:
    """Return the URNs of the entities whose baselines a verification or an edit replaces."""
    if change == "verify" or before["content"] != record.content:
        return urns_of(record)
    listed, listed_before = (
        {(column["urn"], column["column"]) for column in columns}
        for columns in (record.related_columns, before["related_columns"])
    )
    return [urn for urn, _ in listed ^ listed_before]


def _replace(record: MemoryRecord, change: str, urns: Sequence[str]) -> None:
    rows = list(EntityBaseline.objects.filter(record=record, urn__in=urns, taken_at__isnull=False))
    for row in rows:
        values = {name: getattr(row, name) for name in REPLACED}
        values |= {"change": change, "taken_at": row.taken_at and row.taken_at.isoformat()}
        row.due = Due.TAKE
        row.replaced = values
    EntityBaseline.objects.bulk_update(rows, ["due", "replaced"])


def _bring_back(record: MemoryRecord, undone: str) -> None:
    rows = list(EntityBaseline.objects.filter(record=record, replaced__change=undone))
    for row in rows:
        earlier = row.replaced or {}
        for name in REPLACED:
            setattr(row, name, earlier[name])
        row.taken_at = parse_datetime(earlier["taken_at"])
        row.due = Due.COMPARE
        row.replaced = None
    EntityBaseline.objects.bulk_update(rows, [*REPLACED, "taken_at", "due", "replaced"])


def urns_of(record: MemoryRecord) -> list[str]:
    return list(dict.fromkeys([*record.entity_urns, *(column["urn"] for column in record.related_columns)]))


def is_unmistakable(text: str, urn: str, column: str) -> bool:
    """Return whether a text names a column so that no ordinary word can be meant.

    The name must be in backticks, follow the name of its table and a dot, or be written with an underscore, a digit or
    capitals inside.
    """
    name = re.escape(column.rpartition(".")[2])
    whole = rf"(?<!\w){name}(?!\w)"
    if any(re.search(whole, span, re.IGNORECASE) for span in re.findall(r"`([^`]+)`", text)):
        return True
    if follows_table(text, urn, column):
        return True
    return any(re.search(r"[^\W\d]\W*\d|_|[^\W\d_A-Z][A-Z]", word) for word in re.findall(whole, text, re.IGNORECASE))


def follows_table(text: str, urn: str, column: str) -> bool:
    """Return whether a text names a column after the name of its table, as in `orders.status`."""
    table, name = (re.escape(path.rpartition(".")[2]) for path in (entity_view.short_name(urn), column))
    return re.search(rf"(?<!\w){table}[\"`\]]?\.[\"`\[]?{name}(?!\w)", text, re.IGNORECASE) is not None


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
