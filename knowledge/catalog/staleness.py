"""Whether what memories speak of is still as it was: baselines, and what differs from them.

A memory is stale when an entity that it names is gone, newly deprecated, or, where it names columns, when one of
those went or changed its type. Other changes of the schema leave a note to verify. A catalog that does not
answer or is empty says nothing, and an entity that was never seen is unknown: neither makes a memory stale.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db.models import F, Min, Q
from django.utils import timezone

from knowledge import catalog as catalogs
from knowledge.catalog import facts
from knowledge.catalog.port import CatalogPort, CatalogRefused, CatalogUnavailable
from knowledge.models import CatalogCursor, EntityBaseline
from memories import services
from memories.access import Caller
from memories.errors import Conflict, NotFound
from memories.models import MemoryRecord, Status
from memories.models.record import MemoryRecordQuerySet
from memories.validation import REASON_MAX

WATCHED = ("status", "deprecation", "schemaMetadata", "datasetProperties", "glossaryTermInfo", "documentInfo")
CHUNK = 500  # memories per round of reads
WATCHER = Caller(email="watcher", persona="", personas=frozenset(), is_admin=True, door="watcher")


@dataclass(frozen=True)
class Seen:
    """An entity as it is now, as far as staleness is concerned."""

    exists: bool
    deprecated: bool = False
    note: str = ""
    replacement: str = ""
    columns: Mapping[str, Sequence[object]] = field(default_factory=dict)


@dataclass
class Swept:
    checked: int = 0
    stale: int = 0
    to_verify: int = 0
    baselines_taken: int = 0
    note: str = ""


def look(catalog: CatalogPort, urns: Iterable[str]) -> dict[str, Seen]:
    """One bulk read for all. Raises CatalogUnavailable or CatalogRefused."""
    wanted = sorted(set(urns))
    seen = {}
    for urn, read in catalog.read(wanted, WATCHED).items():
        aspects = {name: aspect.value for name, aspect in read.items() if aspect.value is not None}
        known = facts.of(urn, aspects)
        columns = {column.simple_path: [column.native_type, column.nullable] for column in known.columns}
        deprecation = aspects.get("deprecation") or {}
        seen[urn] = Seen(
            exists=bool(aspects) and not known.removed,
            deprecated=known.deprecated,
            note=known.deprecation_note,
            replacement=str(deprecation.get("replacement") or ""),
            columns=columns,
        )
    return seen


def take_baselines(records: Sequence[MemoryRecord], seen: Mapping[str, Seen]) -> int:
    """Notes how the entities of these records are now; earlier baselines of entities no longer named go."""
    now = timezone.now()
    rows = [
        EntityBaseline(
            record=record,
            urn=urn,
            existed=seen[urn].exists,
            deprecated=seen[urn].deprecated,
            columns=seen[urn].columns,
            taken_at=now,
            checked_at=now,
        )
        for record in records
        for urn in named(record)
        if urn in seen
    ]
    EntityBaseline.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["record", "urn"],
        update_fields=["existed", "deprecated", "columns", "taken_at", "checked_at", "to_verify"],
        batch_size=500,
    )
    for record in records:
        EntityBaseline.objects.filter(record=record).exclude(urn__in=named(record)).delete()
    return len(rows)


def ground(record_ids: Iterable[UUID]) -> int:
    """Takes the baselines of these memories from the catalog; 0 when it is away (the watcher makes up for it)."""
    records = list(MemoryRecord.objects.filter(pk__in=list(record_ids)).exclude(entity_urns=[], related_columns=[]))
    if not records:
        return 0
    try:
        seen = look(catalogs.current(), {urn for record in records for urn in named(record)})
    except (CatalogUnavailable, CatalogRefused):
        return 0
    return take_baselines(records, seen)


def named(record: MemoryRecord) -> list[str]:
    return list(dict.fromkeys([*record.entity_urns, *(column["urn"] for column in record.related_columns)]))


# -- comparing -----------------------------------------------------------------------------------------------


def differences(baseline: EntityBaseline, seen: Seen, named_columns: set[str]) -> tuple[list[str], list[str]]:
    """What makes the memory stale, and what only asks for another look; in words, old and new fact."""
    name = facts.short_name(baseline.urn)
    if not baseline.existed:
        return [], []  # it was unknown, and what is unknown can't have changed
    if not seen.exists:
        return [f"{name} is no longer in the catalog"], []
    stale: list[str] = []
    verify: list[str] = []
    if seen.deprecated and not baseline.deprecated:
        instead = f", replaced by {facts.short_name(seen.replacement)}" if seen.replacement else ""
        stale.append(f"{name} was deprecated{instead}: {seen.note or 'no note'}")
    for column, change in columns_changed(baseline.columns, seen.columns):
        (stale if column in named_columns else verify).append(f"{name}: {change}")
    return stale, verify


def columns_changed(
    before: Mapping[str, Sequence[object]], now: Mapping[str, Sequence[object]]
) -> Iterable[tuple[str, str]]:
    if not before or not now:
        return  # a schema that is missing altogether was not read, or is not kept
    for column in sorted(set(before) | set(now)):
        old, new = before.get(column), now.get(column)
        if new is None:
            yield column, f"the column {column} was removed"
        elif old is None:
            yield column, f"the column {column} was added"
        elif old[0] != new[0]:
            yield column, f"the column {column} changed its type from {old[0]} to {new[0]}"
        elif old[1] != new[1]:
            may = "may be empty now" if new[1] else "may no longer be empty"
            yield column, f"the column {column} {may}"


# -- watching ------------------------------------------------------------------------------------------------


def sweep(limit: int) -> Swept:
    """Compares the memories that were not looked at for the longest time, at most `limit`. An outage changes
    nothing and is said."""
    swept, catalog, started = Swept(), catalogs.readable(), timezone.now()
    done = 0
    while done < limit:
        records = _next(min(CHUNK, limit - done), started)
        if not records:
            break
        done += len(records)
        try:
            seen = look(catalog, {urn for record in records for urn in named(record)})
            if not any(one.exists for one in seen.values()) and not catalog.search("", limit=1):
                swept.note = "the catalog is empty: nothing was compared"
                return swept
        except (CatalogUnavailable, CatalogRefused) as error:
            swept.note = error.message
            return swept
        swept.note = catalogs.copy_note(catalog)
        _compare(records, seen, swept)
    return swept


def report(note: str) -> None:
    """Keeps what the last sweep could not do, for pages and health checks; an empty note is all well."""
    CatalogCursor.objects.update_or_create(
        name=WATCHER.email, defaults={"value": note[:500], "updated_at": timezone.now()}
    )


def degraded() -> str:
    """Why the last sweep compared nothing, or only with a copy; nothing while all is well."""
    row = CatalogCursor.objects.filter(name=WATCHER.email).first()
    return f"{row.value} (since {row.updated_at:%Y-%m-%d %H:%M} UTC)" if row and row.value else ""


def check_entities(urns: Sequence[str]) -> Swept:
    """Compares all active memories about these entities now, as an event asks for."""
    swept = Swept()
    records = list(_active().filter(pk__in=EntityBaseline.objects.filter(urn__in=urns).values("record")))
    try:
        seen = look(catalogs.current(), {urn for record in records for urn in named(record)})
    except (CatalogUnavailable, CatalogRefused) as error:
        swept.note = error.message
        return swept
    _compare(records, seen, swept)
    return swept


def _active() -> MemoryRecordQuerySet:
    return MemoryRecord.objects.filter(status=Status.ACTIVE).exclude(entity_urns=[], related_columns=[])


def _next(count: int, started: datetime) -> list[MemoryRecord]:
    """Those without baseline first, then those whose check is longest ago; not twice in one sweep."""
    waiting = _active().annotate(looked_at=Min("baselines__checked_at"))
    due = waiting.filter(Q(looked_at__isnull=True) | Q(looked_at__lt=started))
    return list(due.defer("embedding", "search").order_by(F("looked_at").asc(nulls_first=True), "pk")[:count])


def _compare(records: Sequence[MemoryRecord], seen: Mapping[str, Seen], swept: Swept) -> None:
    known: dict[UUID, list[EntityBaseline]] = {}
    for baseline in EntityBaseline.objects.filter(record__in=[record.pk for record in records]):
        known.setdefault(baseline.record_id, []).append(baseline)
    swept.baselines_taken += take_baselines([record for record in records if record.pk not in known], seen)
    for record in records:
        if record.pk in known:
            _compare_one(record, known[record.pk], seen, swept)
    swept.checked += len(records)
    EntityBaseline.objects.filter(record__in=[record.pk for record in records]).update(checked_at=timezone.now())


def _compare_one(
    record: MemoryRecord, baselines: Sequence[EntityBaseline], seen: Mapping[str, Seen], swept: Swept
) -> None:
    stale: list[str] = []
    for baseline in baselines:
        if baseline.urn not in seen:
            continue
        columns = {facts.simple_path(c["column"]) for c in record.related_columns if c["urn"] == baseline.urn}
        reasons, notes = differences(baseline, seen[baseline.urn], columns)
        stale += reasons
        note = "; ".join(notes)
        if note != baseline.to_verify:
            EntityBaseline.objects.filter(pk=baseline.pk).update(to_verify=note)
            swept.to_verify += bool(note)
    if stale:
        with contextlib.suppress(Conflict, NotFound):  # somebody else changed it in this moment
            services.mark_stale(caller=WATCHER, record_id=record.pk, reason="; ".join(stale)[:REASON_MAX])
            swept.stale += 1


@contextlib.contextmanager
def our_own(urns: Iterable[str]) -> Iterator[None]:
    """Around writes of ours: baselines that were right before are right after. What a curator writes must not make
    the memories stale that asked for it."""
    before = _look_if_there(urns)
    yield
    for urn, seen in _look_if_there(before).items():
        old = before[urn]
        if old != seen:
            same = EntityBaseline.objects.filter(urn=urn, existed=old.exists, deprecated=old.deprecated)
            same.update(existed=seen.exists, deprecated=seen.deprecated)


def _look_if_there(urns: Iterable[str]) -> dict[str, Seen]:
    try:
        return look(catalogs.current(), urns)
    except (CatalogUnavailable, CatalogRefused):
        return {}
