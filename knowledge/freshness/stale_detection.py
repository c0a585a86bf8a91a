"""Staleness detection: comparison of the catalog with the baselines of memories.

- A memory becomes stale if an entity that it refers to was removed or newly deprecated, or if a column that it refers
  to was added, removed or changed.
- The same holds if a column was removed that its text names unmistakably, for example in backticks.
- A change of another column sets a note to verify the memory, and also a hint if the memory's text mentions the column.
- A check stops if the catalog is unavailable. The scheduled check also stops if the catalog is empty.
- An entity that the catalog did not have when the baseline was taken makes no memory stale. Baselines that were taken
  from another catalog are ignored.
- A memory that a check made stale becomes active again when the differences of all its entities are gone.
- A memory that became active again in another way is compared for all its entities, even if they have not changed since
  the last check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone, translation
from django.utils.translation import gettext

from foundation.database.identity import service
from foundation.operations.errors import Conflict, NotFound
from foundation.operations.fields import MAX_REASON
from foundation.people.caller import Caller
from knowledge.catalog import entity_view, identity
from knowledge.catalog.current import copy_note, get_catalog, get_readable_catalog
from knowledge.catalog.interface import Catalog, CatalogRefused, CatalogUnavailable
from knowledge.freshness import baselines, entity_states
from knowledge.freshness.baselines import (
    EntitySnapshot,
    follows_table,
    is_unmistakable,
    read_entities,
    urns_of,
)
from knowledge.freshness.conditions import check_conditions
from knowledge.models import CatalogCursor, Due, EntityBaseline
from memories import services
from memories.models import IN_USE, MemoryRecord, Status
from memories.models.record import MemoryRecordQuerySet
from memories.writing import staleness

CHUNK = 500  # maximum number of entities, or of memories, that are read at once
MAX_NEW = 5_000  # maximum number of memories per check whose due baselines are taken
REVERTED = "the change in the catalog was reverted"
WATCHER = Caller(email="watcher", persona="", personas=frozenset(), is_admin=True, channel="watcher")


@dataclass
class CheckReport:
    """Result of a check. The numbers count memories, unless a comment says otherwise."""

    checked: int = 0
    stale: int = 0
    to_verify: int = 0  # baselines with a new note to verify the memory
    fresh: int = 0  # no longer stale
    baselines_taken: int = 0  # baselines
    note: str = ""  # why the check is incomplete, or that a copy of DataHub was read; empty otherwise


# -- comparing -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CatalogDifference:
    """Differences between a baseline and the current entity, as texts.

    `stale` makes the memory stale, `verify` asks to verify it, and `hints` are about columns that its text mentions.
    """

    stale: Sequence[str] = ()
    verify: Sequence[str] = ()
    hints: Sequence[str] = ()


@translation.override(settings.LANGUAGE_CODE)  # the texts are stored
def difference(baseline: EntityBaseline, entity: EntitySnapshot, named_columns: set[str]) -> CatalogDifference:
    """Compare an entity with its baseline. `named_columns` are the columns that the memory depends on."""
    name = entity_view.short_name(baseline.urn)
    if not baseline.existed:
        return CatalogDifference()  # the catalog did not have the entity, so the entity can't have changed
    if not entity.exists:
        return CatalogDifference([f"{name} is no longer in the catalog"])
    stale: list[str] = []
    verify: list[str] = []
    hints: list[str] = []
    if entity.deprecated and not baseline.deprecated:
        instead = f", replaced by {entity_view.short_name(entity.replacement)}" if entity.replacement else ""
        stale.append(f"{name} was deprecated{instead}: {entity.note or 'no note'}")
    for column, change in columns_changed(baseline.columns, entity.columns):
        (stale if column in named_columns else verify).append(f"{name}: {change}")
        if column in baseline.mentioned and column not in named_columns:
            hints.append(f"{name}: {change}")
    return CatalogDifference(stale, verify, hints)


def _columns_depended_on(
    record: MemoryRecord, baseline: EntityBaseline, entity: EntitySnapshot, others: Sequence[EntityBaseline]
) -> set[str]:
    """Return the columns whose change makes the memory stale: those it lists, and removed ones that it surely names."""
    listed = {entity_view.simple_path(c["column"]) for c in record.related_columns if c["urn"] == baseline.urn}
    removed = set(baseline.mentioned) - set(entity.columns) - listed
    elsewhere = {column for other in others if other.urn != baseline.urn for column in other.columns}
    surely = {
        column
        for column in removed
        if (
            follows_table(record.content, baseline.urn, column)
            if column in elsewhere  # the text may mean the column of the other table
            else is_unmistakable(record.content, baseline.urn, column)
        )
    }
    return listed | surely


def columns_changed(
    before: Mapping[str, Sequence[object]], now: Mapping[str, Sequence[object]]
) -> Iterable[tuple[str, str]]:
    if not before or not now:
        return  # a missing schema was not ingested, which does not mean that its columns were removed
    for column in sorted(set(before) | set(now)):
        old = before.get(column)
        new = now.get(column)
        if new is None:
            yield column, gettext("the column %(column)s was removed") % {"column": column}
        elif old is None:
            yield column, gettext("the column %(column)s was added") % {"column": column}
        elif old[0] != new[0]:
            text = gettext("the column %(column)s changed its type from %(old)s to %(new)s")
            yield column, text % {"column": column, "old": old[0], "new": new[0]}
        elif old[1] != new[1]:
            text = (
                gettext("the column %(column)s may be empty now")
                if new[1]
                else gettext("the column %(column)s may no longer be empty")
            )
            yield column, text % {"column": column}


# -- watching ------------------------------------------------------------------------------------------------

# Entities that active or stale memories refer to. The entity that was checked longest ago comes first.
DUE = """
    SELECT about.urn FROM (
        SELECT DISTINCT b.urn FROM entity_baselines b JOIN memory_records r ON r.id = b.record_id
        WHERE b.catalog = %(catalog)s AND r.status IN ('active', 'stale')
    ) about LEFT JOIN entity_states s ON s.catalog = %(catalog)s AND s.urn = about.urn
    ORDER BY s.checked_at ASC NULLS FIRST, about.urn LIMIT %(limit)s
"""


@service("freshness")
def check_all_entities(limit: int) -> CheckReport:
    """Check the `limit` entities that were checked longest ago, and compare the memories about those that changed.

    If the catalog is or becomes unavailable, the check stops and the report's note says why.
    """
    result = CheckReport()
    catalog = get_readable_catalog()
    try:
        check_conditions(WATCHER)
        _catch_up_all(catalog, result)
        due = _due(limit)
        for start in range(0, len(due), CHUNK):
            if not _check_chunk(catalog, due[start : start + CHUNK], result):
                result.note = "the catalog is empty: nothing was compared"
                return result
    except (CatalogUnavailable, CatalogRefused) as error:
        result.note = error.message
        return result
    result.note = copy_note(catalog)
    return result


def _due(limit: int) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(DUE, {"catalog": identity(), "limit": limit})
        return [urn for (urn,) in cursor.fetchall()]


@service("freshness")
def catch_up(record_ids: Iterable[UUID]) -> CheckReport:
    """Take the due baselines of these memories, and compare those that became active again or are stale.

    If the catalog is unavailable, the report's note says why, and the scheduled check catches up.
    """
    result = CheckReport()
    try:
        records = MemoryRecord.objects.filter(pk__in=list(record_ids)).defer("search")
        _catch_up(get_catalog(), list(records), result)
    except (CatalogUnavailable, CatalogRefused) as error:
        result.note = error.message
    return result


def _catch_up_all(catalog: Catalog, result: CheckReport) -> None:
    own = EntityBaseline.objects.filter(record=OuterRef("pk"), catalog=identity())
    has_none = ~Exists(own) & Q(status=Status.ACTIVE)
    rows = _memories_about_entities().filter(has_none | Exists(own.exclude(due=Due.NOTHING)))
    records = list(rows.order_by("created_at", "pk")[:MAX_NEW].defer("search"))
    for start in range(0, len(records), CHUNK):
        _catch_up(catalog, records[start : start + CHUNK], result)


def _catch_up(catalog: Catalog, records: Sequence[MemoryRecord], result: CheckReport) -> None:
    rows_of = _baselines_of(records)
    wanted = {(record, urn) for record in records for urn in urns_of(record)}
    entities = read_entities(catalog, {urn for _, urn in wanted}) if wanted else {}
    entity_states.empty_others(entities)
    current = {(row.record_id, row.urn) for rows in rows_of.values() for row in rows if row.due != Due.TAKE}
    result.baselines_taken += baselines.save_baselines(
        [(record, urn) for record, urn in wanted if (record.pk, urn) not in current], entities
    )
    to_compare = [
        record
        for record in records
        if record.status == Status.STALE or any(row.due == Due.COMPARE for row in rows_of.get(record.pk, ()))
    ]
    EntityBaseline.objects.filter(record__in=to_compare, due=Due.COMPARE).update(due=Due.NOTHING)
    for record in to_compare:
        # A memory whose only baselines are of another catalog can't be compared.
        if record.status in IN_USE and (record.pk in rows_of or not urns_of(record)):
            _compare_one(record, rows_of.get(record.pk, ()), entities, result)


def _baselines_of(records: Iterable[MemoryRecord]) -> dict[UUID, list[EntityBaseline]]:
    rows_of: dict[UUID, list[EntityBaseline]] = {}
    for row in EntityBaseline.objects.filter(record__in=list(records), catalog=identity()):
        rows_of.setdefault(row.record_id, []).append(row)
    return rows_of


def _check_chunk(catalog: Catalog, urns: Sequence[str], result: CheckReport) -> bool:
    """Compare the memories about entities that changed since the last check. Return False if the catalog is empty."""
    began = entity_states.database_time()
    entities = read_entities(catalog, urns)
    if not any(entity.exists for entity in entities.values()) and not catalog.search("", limit=1):
        return False
    changed = entity_states.changed(entities)
    result.checked += _count_active(urns)
    entity_states.empty_others(entities, at=began)
    compare(catalog, changed, entities, result)
    entity_states.save(entities, began)
    return True


def _count_active(urns: Sequence[str]) -> int:
    return _memories_about_entities().filter(status=Status.ACTIVE, baselines__urn__in=urns).distinct().count()


@service("freshness")
def check_entities(urns: Iterable[str]) -> CheckReport:
    """Compare all memories about these entities at once, after an event of DataHub, an import or our own write."""
    result = CheckReport()
    catalog = get_catalog()
    unique_urns = set(urns)
    try:
        check_conditions(WATCHER, unique_urns)
    except (CatalogUnavailable, CatalogRefused) as error:
        result.note = error.message
        return result
    about = EntityBaseline.objects.filter(urn__in=unique_urns, catalog=identity())
    known_urns = sorted(set(about.values_list("urn", flat=True)))
    for start in range(0, len(known_urns), CHUNK):
        chunk = known_urns[start : start + CHUNK]
        began = entity_states.database_time()
        try:
            entities = read_entities(catalog, chunk)
            result.checked += _count_active(chunk)
            entity_states.empty_others(entities, at=began)
            compare(catalog, chunk, entities, result)
        except (CatalogUnavailable, CatalogRefused) as error:
            result.note = error.message
            return result
        entity_states.save(entities, began)
    return result


def compare(catalog: Catalog, urns: Sequence[str], entities: Mapping[str, EntitySnapshot], result: CheckReport) -> None:
    """Compare the memories about these entities. `entities` has the current state of the entities.

    The other entities of stale memories are read, because a memory becomes active again only if none of them differs.
    """
    records = list(_memories_about_entities().filter(baselines__urn__in=urns).distinct().defer("search"))
    for start in range(0, len(records), CHUNK):
        chunk = records[start : start + CHUNK]
        rows_of = _baselines_of(chunk)
        stale = [record.pk for record in chunk if record.status == Status.STALE]
        unread = {row.urn for pk in stale for row in rows_of.get(pk, ())} - set(entities)
        others = read_entities(catalog, unread) if unread else {}
        entity_states.empty_others(others)
        known = {**entities, **others}
        for record in chunk:
            _compare_one(record, rows_of.get(record.pk, ()), known, result)


def _memories_about_entities() -> MemoryRecordQuerySet:
    living = MemoryRecord.objects.filter(status__in=IN_USE)
    return living.exclude(entity_urns=[], related_columns=[])


def _compare_one(
    record: MemoryRecord, rows: Sequence[EntityBaseline], entities: Mapping[str, EntitySnapshot], result: CheckReport
) -> None:
    stale: list[str] = []
    for baseline in rows:
        entity = entities.get(baseline.urn)
        if baseline.due == Due.TAKE:
            continue
        if entity is None:
            if record.status == Status.STALE:
                return  # the entity that was not read may be the one that made the memory stale
            continue
        if entity.exists and not baseline.existed:  # the catalog has the entity now
            result.baselines_taken += baselines.save_baselines([(record, baseline.urn)], {baseline.urn: entity})
            continue
        changes = difference(baseline, entity, _columns_depended_on(record, baseline, entity, rows))
        stale += changes.stale
        note = "; ".join(changes.verify)
        hint = "; ".join(changes.hints)
        if (note, hint) != (baseline.to_verify, baseline.hint):
            EntityBaseline.objects.filter(pk=baseline.pk).update(to_verify=note, hint=hint)
            result.to_verify += bool(note)
    _set_status(record, "; ".join(stale)[:MAX_REASON], result)


def _set_status(record: MemoryRecord, reason: str, result: CheckReport) -> None:
    """Make the memory stale if there is a reason, and otherwise active again, if a check made it stale."""
    pk = record.pk
    seen = record.updated_at
    try:
        if record.status == Status.ACTIVE:
            if reason:
                services.mark_stale(WATCHER, record_id=pk, reason=reason, unchanged_since=seen)
                result.stale += 1
        elif reason != record.stale_reason and staleness.was_marked_stale_by(record, WATCHER.email):
            if reason:
                staleness.replace_stale_reason(WATCHER, record_id=pk, reason=reason, unchanged_since=seen)
            else:
                staleness.mark_fresh(WATCHER, record_id=pk, reason=REVERTED, unchanged_since=seen)
                result.fresh += 1
    except (Conflict, NotFound):  # a concurrent request has changed the memory
        EntityBaseline.objects.filter(record=record.pk, due=Due.NOTHING).update(due=Due.COMPARE)


# -- reporting ---------------------------------------------------------------------------------------------------


def report(note: str) -> None:
    """Save the note of the last check for pages and health checks. An empty note means that the check was complete."""
    CatalogCursor.objects.update_or_create(
        name=WATCHER.email, defaults={"value": note[:500], "updated_at": timezone.now()}
    )


def degraded() -> str:
    """Return why the last check was incomplete or read a copy of DataHub, or "" if neither is the case."""
    row = CatalogCursor.objects.filter(name=WATCHER.email).first()
    return f"{row.value} (checked at {row.updated_at:%Y-%m-%d %H:%M} UTC)" if row and row.value else ""


def hints(record_ids: Sequence[UUID]) -> dict[UUID, str]:
    """Return the changes of columns that the memories' texts mention, by record id."""
    rows = EntityBaseline.objects.filter(record__in=record_ids).exclude(hint="").order_by("urn")
    by_record: dict[UUID, list[str]] = {}
    for pk, hint in rows.values_list("record_id", "hint"):
        by_record.setdefault(pk, []).append(hint)
    return {pk: "; ".join(texts) for pk, texts in by_record.items()}
