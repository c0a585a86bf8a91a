"""Whether what memories speak of is still as it was: what differs from their baselines.

A memory is stale when an entity that it names is gone, newly deprecated, or, where it names columns, when one of those
went or changed its type. Other changes of the schema leave a note to verify, and a hint where the text names the
column. A catalog that does not answer or is empty says nothing; an entity that was never seen, or was seen in another
catalog, is unknown: neither makes a memory stale. What differs no more is fresh again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connection
from django.db.models import Exists, OuterRef
from django.utils import timezone

from knowledge.catalog import entity_view, identity
from knowledge.catalog.current import copy_note, get_catalog, get_readable_catalog
from knowledge.catalog.interface import Catalog, CatalogRefused, CatalogUnavailable
from knowledge.freshness import baselines
from knowledge.freshness.baselines import EntitySnapshot, read_entities, urns_of
from knowledge.models import CatalogCursor, Changeset, EntityBaseline, EntityState
from memories import services
from memories.contract.errors import Conflict, NotFound
from memories.contract.fields import MAX_REASON
from memories.identity.caller import Caller
from memories.models import MemoryRecord, MemoryRevision, Status
from memories.models.record import MemoryRecordQuerySet

CHUNK = 500  # entities, or memories, per round of reads
MAX_NEW = 5_000  # memories without baseline that one sweep takes on
WATCHER = Caller(email="watcher", persona="", personas=frozenset(), is_admin=True, channel="watcher")


@dataclass
class CheckReport:
    checked: int = 0
    stale: int = 0
    to_verify: int = 0
    fresh: int = 0
    baselines_taken: int = 0
    note: str = ""


# -- comparing -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """In words, old and new fact: what makes a memory stale, what asks for another look, and what its text names."""

    stale: Sequence[str] = ()
    verify: Sequence[str] = ()
    hints: Sequence[str] = ()


def difference(baseline: EntityBaseline, entity: EntitySnapshot, named_columns: set[str]) -> Difference:
    name = entity_view.short_name(baseline.urn)
    if not baseline.existed:
        return Difference()  # it was unknown, and what is unknown can't have changed
    if not entity.exists:
        return Difference([f"{name} is no longer in the catalog"])
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
    return Difference(stale, verify, hints)


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

# Entities that active memories name, longest unchecked first.
DUE = """
    SELECT about.urn FROM (
        SELECT DISTINCT b.urn FROM entity_baselines b JOIN memory_records r ON r.id = b.record_id
        WHERE b.catalog = %(catalog)s AND r.status IN ('active', 'stale')
    ) about LEFT JOIN entity_states s ON s.catalog = %(catalog)s AND s.urn = about.urn
    ORDER BY s.checked_at ASC NULLS FIRST, about.urn LIMIT %(limit)s
"""


def check_all_entities(limit: int) -> CheckReport:
    """Looks at the entities that were not looked at for the longest time, at most `limit`, and compares the memories of
    those that changed. An outage changes nothing and is said."""
    swept, catalog = CheckReport(), get_readable_catalog()
    try:
        _ground_new(catalog, swept)
        due = _due(limit)
        for start in range(0, len(due), CHUNK):
            if not _look_at(catalog, due[start : start + CHUNK], swept):
                swept.note = "the catalog is empty: nothing was compared"
                return swept
    except (CatalogUnavailable, CatalogRefused) as error:
        swept.note = error.message
        return swept
    swept.note = copy_note(catalog)
    return swept


def _due(limit: int) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(DUE, {"catalog": identity(), "limit": limit})
        return [urn for (urn,) in cursor.fetchall()]


def _ground_new(catalog: Catalog, swept: CheckReport) -> None:
    """Memories of which nothing is known in this catalog."""
    own_baselines = EntityBaseline.objects.filter(record=OuterRef("pk"), catalog=identity())
    waiting = _living().filter(~Exists(own_baselines), status=Status.ACTIVE).order_by("created_at", "pk")[:MAX_NEW]
    records = list(waiting.defer("search"))
    for start in range(0, len(records), CHUNK):
        chunk = records[start : start + CHUNK]
        swept.baselines_taken += baselines.save_baselines(
            chunk, read_entities(catalog, {u for record in chunk for u in urns_of(record)})
        )


def _look_at(catalog: Catalog, urns: Sequence[str], swept: CheckReport) -> bool:
    """False when the catalog is empty, and so says nothing."""
    entities = read_entities(catalog, urns)
    if not any(entity.exists for entity in entities.values()) and not catalog.search("", limit=1):
        return False
    states = EntityState.objects.filter(catalog=identity(), urn__in=urns)
    before = dict(states.values_list("urn", "fingerprint"))
    changed = [urn for urn in urns if before.get(urn) != entities[urn].fingerprint]
    swept.checked += _count_active(urns)
    compare(changed, entities, swept)
    _remember(entities)
    return True


def _count_active(urns: Sequence[str]) -> int:
    return _living().filter(status=Status.ACTIVE, baselines__urn__in=urns).distinct().count()


def _remember(entities: Mapping[str, EntitySnapshot]) -> None:
    now, catalog = timezone.now(), identity()
    rows = [EntityState(catalog=catalog, urn=u, fingerprint=s.fingerprint, checked_at=now) for u, s in entities.items()]
    EntityState.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["catalog", "urn"], update_fields=["fingerprint", "checked_at"]
    )


def check_entities(urns: Iterable[str]) -> CheckReport:
    """Compares all memories about these entities now, as an event, a load or a write of ours asks for."""
    swept, catalog = CheckReport(), get_catalog()
    unique_urns = set(urns)
    about = EntityBaseline.objects.filter(urn__in=unique_urns, catalog=identity())
    known_urns = sorted(set(about.values_list("urn", flat=True)))
    for start in range(0, len(known_urns), CHUNK):
        chunk = known_urns[start : start + CHUNK]
        try:
            entities = read_entities(catalog, chunk)
        except (CatalogUnavailable, CatalogRefused) as error:
            swept.note = error.message
            return swept
        swept.checked += _count_active(chunk)
        compare(chunk, entities, swept)
        _remember(entities)
    return swept


def compare(urns: Sequence[str], entities: Mapping[str, EntitySnapshot], swept: CheckReport) -> None:
    """Every living memory about these entities against its baselines."""
    records = list(_living().filter(baselines__urn__in=urns).distinct().defer("search"))
    for start in range(0, len(records), CHUNK):
        chunk = {record.pk: record for record in records[start : start + CHUNK]}
        by_record: dict[UUID, list[EntityBaseline]] = {}
        for baseline in EntityBaseline.objects.filter(record__in=chunk, catalog=identity()):
            by_record.setdefault(baseline.record_id, []).append(baseline)
        for pk, rows in by_record.items():
            _compare_one(chunk[pk], rows, entities, swept)


def _living() -> MemoryRecordQuerySet:
    living = MemoryRecord.objects.filter(status__in=[Status.ACTIVE, Status.STALE])
    return living.exclude(entity_urns=[], related_columns=[])


def _compare_one(
    record: MemoryRecord, rows: Sequence[EntityBaseline], entities: Mapping[str, EntitySnapshot], swept: CheckReport
) -> None:
    stale: list[str] = []
    for baseline in rows:
        now = entities.get(baseline.urn)
        if now is None:
            if record.status == Status.STALE:
                return  # another entity may have made it stale, and was not looked at
            continue
        if now.exists and not baseline.existed:  # unknown until now
            swept.baselines_taken += baselines.save_baselines([record], {baseline.urn: now})
            continue
        columns = {entity_view.simple_path(c["column"]) for c in record.related_columns if c["urn"] == baseline.urn}
        changes = difference(baseline, now, columns)
        stale += changes.stale
        note, hint = "; ".join(changes.verify), "; ".join(changes.hints)
        if (note, hint) != (baseline.to_verify, baseline.hint):
            EntityBaseline.objects.filter(pk=baseline.pk).update(to_verify=note, hint=hint)
            swept.to_verify += bool(note)
    with contextlib.suppress(Conflict, NotFound):  # somebody else changed it in this moment
        if stale and record.status == Status.ACTIVE:
            services.mark_stale(caller=WATCHER, record_id=record.pk, reason="; ".join(stale)[:MAX_REASON])
            swept.stale += 1
        elif not stale and record.status == Status.STALE and _is_the_watcher_s(record):
            services.mark_fresh(caller=WATCHER, record_id=record.pk, reason="what had changed is as it was")
            swept.fresh += 1


def _is_the_watcher_s(record: MemoryRecord) -> bool:
    """Whether it went stale by a comparison, and nobody has touched it since."""
    last = MemoryRevision.objects.filter(record=record).order_by("-valid_to", "-id").first()
    return last is not None and last.change == "mark_stale" and last.changed_by == WATCHER.email


# -- what is said of it ------------------------------------------------------------------------------------------


def report(note: str) -> None:
    """Keeps what the last sweep could not do, for pages and health checks; an empty note is all well."""
    CatalogCursor.objects.update_or_create(
        name=WATCHER.email, defaults={"value": note[:500], "updated_at": timezone.now()}
    )


def degraded() -> str:
    """Why the last sweep compared nothing, or only with a copy; nothing while all is well."""
    row = CatalogCursor.objects.filter(name=WATCHER.email).first()
    return f"{row.value} (since {row.updated_at:%Y-%m-%d %H:%M} UTC)" if row and row.value else ""


def hints(record_ids: Sequence[UUID]) -> dict[UUID, str]:
    """What changed of columns that these memories' texts name: it may concern what they say."""
    rows = EntityBaseline.objects.filter(record__in=record_ids).exclude(hint="").order_by("urn")
    by_record: dict[UUID, list[str]] = {}
    for pk, hint in rows.values_list("record_id", "hint"):
        by_record.setdefault(pk, []).append(hint)
    return {pk: "; ".join(texts) for pk, texts in by_record.items()}


# -- our own writes ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def keep_baselines_current(changeset: Changeset) -> Iterator[None]:
    """Around writes of ours: baselines of the changeset's own insights that were right before are right after. What a
    curator writes must not make the memory stale that asked for it; all others are compared with it at once."""
    urns = set(changeset.changes.values_list("urn", flat=True))
    before = _look_if_there(urns)
    yield
    for urn, entity in _look_if_there(before).items():
        old = before[urn]
        if old != entity:
            rows = EntityBaseline.objects.filter(urn=urn, record__in=changeset.insight_ids, catalog=identity())
            matches = rows.filter(existed=old.exists, deprecated=old.deprecated)
            matches.update(
                existed=entity.exists, deprecated=entity.deprecated, description_hash=entity.description_hash
            )
    check_entities(urns)


def _look_if_there(urns: Iterable[str]) -> dict[str, EntitySnapshot]:
    try:
        return read_entities(get_catalog(), urns)
    except (CatalogUnavailable, CatalogRefused):
        return {}
