"""The history of a catalog entity.

Its events are memories about the entity (claims), corrections of memories, changesets and other catalog changes.
The history of a column is its earlier description and the memories about the column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Any
from uuid import UUID

from django.db.models import Count, F, Func, Q, QuerySet, TextField
from django.utils.translation import gettext, gettext_lazy

from foundation.links import url_for
from foundation.people.caller import Caller
from knowledge.catalog.entity_view import simple_path
from knowledge.changesets.diff import of_changes
from knowledge.models import CatalogAspect, Change, ChangeOutcome, Changeset, ChangesetState, Insight
from memories.models import IN_USE, MemoryRecord, Status
from memories.models.record import about_any

EVENTS = 25
KINDS = ("catalog", "changesets", "corrections", "claims")  # events that the history can be restricted to
# Aspects whose changes are shown → words for the changed part of the entity.
ASPECTS = {
    "datasetProperties": "its description in the source",
    "editableDatasetProperties": "its description",
    "schemaMetadata": "its columns",
    "editableSchemaMetadata": "its column descriptions",
    "globalTags": "its tags",
    "glossaryTerms": "its terms",
    "ownership": "its owners",
    "deprecation": "its deprecation",
    "status": "its removal status",
    "domains": "its domain",
    "upstreamLineage": "its upstream lineage",
    "institutionalMemory": "its links",
    "structuredProperties": "its properties",
}
# The same as a sentence, for changes without a text of their own.
CHANGED = {
    "datasetProperties": gettext_lazy("The description in the source was changed"),
    "editableDatasetProperties": gettext_lazy("The description was changed"),
    "schemaMetadata": gettext_lazy("The columns were changed"),
    "editableSchemaMetadata": gettext_lazy("Column descriptions were changed"),
    "globalTags": gettext_lazy("The tags were changed"),
    "glossaryTerms": gettext_lazy("The glossary terms were changed"),
    "ownership": gettext_lazy("The owners were changed"),
    "deprecation": gettext_lazy("The deprecation was changed"),
    "status": gettext_lazy("The entity was removed or restored"),
    "domains": gettext_lazy("The domain was changed"),
    "upstreamLineage": gettext_lazy("The upstream lineage was changed"),
    "institutionalMemory": gettext_lazy("The links were changed"),
    "structuredProperties": gettext_lazy("The properties were changed"),
}


@dataclass(frozen=True)
class TimelineEvent:
    """An entry of the history. `before` is the earlier text, if the event replaced a text.

    `by` is an e-mail address, a URN, or empty if the catalog does not say who changed it.
    """

    at: datetime
    kind: str  # claim, correction, changeset, rolled_back, catalog
    by: str
    text: str
    before: str = ""
    link: str = ""
    record: MemoryRecord | None = None


def entity_timeline(caller: Caller, urn: str, limit: int = EVENTS, *, kind: str = "") -> list[TimelineEvent]:
    """Return the events that the caller may see, newest first. `kind` is one of KINDS, or empty for all of them."""
    streams = []
    if kind in ("", "claims", "corrections"):
        streams.append(_claims(caller, urn, limit, kind))
    if kind in ("", "changesets"):
        streams.append(_changesets(caller, urn, limit))
    if kind in ("", "catalog"):
        streams.append(_catalog_changes(urn, limit))
    return list(islice(merge(*streams, key=lambda event: event.at, reverse=True), limit))


def _claims(caller: Caller, urn: str, limit: int, kind: str) -> list[TimelineEvent]:
    rows = MemoryRecord.objects.visible_to(caller).facts().filter(about_any([urn]))
    if kind:
        rows = rows.filter(supersedes__isnull=kind == "claims")
    records = list(rows.defer("search").order_by("-created_at", "id")[:limit])
    earlier_ids = [record.supersedes_id for record in records if record.supersedes_id]
    earlier = MemoryRecord.objects.visible_to(caller).defer("search").in_bulk(earlier_ids)
    return [
        TimelineEvent(
            at=record.created_at,
            kind="correction" if record.supersedes_id else "claim",
            by=record.created_by,
            record=record,
            text=record.content,
            before=earlier[record.supersedes_id].content if record.supersedes_id in earlier else "",
            link=url_for("memory", record.pk.hex),
        )
        for record in records
    ]


def _changesets(caller: Caller, urn: str, limit: int) -> list[TimelineEvent]:
    rows = Changeset.objects.visible_to(caller).filter(Q(entity_urn=urn) | Q(changes__urn=urn)).distinct()
    rows = rows.exclude(state=ChangesetState.FAILED).prefetch_related("changes")
    events = []
    for changeset in rows.order_by("-created_at")[:limit]:
        titles = "; ".join(change.title for change in of_changes(changeset.changes.all()))
        link = url_for("changeset", changeset.pk.hex)
        events.append(TimelineEvent(changeset.created_at, "changeset", changeset.applied_by, titles, link=link))
        if changeset.rolled_back_at:
            by = changeset.rolled_back_by
            events.append(TimelineEvent(changeset.rolled_back_at, "rolled_back", by, titles, link=link))
    return sorted(events, key=lambda event: event.at, reverse=True)


def _catalog_changes(urn: str, limit: int) -> list[TimelineEvent]:
    versions = CatalogAspect.objects.filter(urn=urn)
    rows = list(by_others(versions).order_by("-created_at")[:limit])
    rule = Q(pk__in=[])
    for row in rows:
        rule |= Q(aspect=row.aspect, version=row.version - 1)
    before = {(row.aspect, row.version): row.value for row in versions.filter(rule)} if rows else {}
    events = []
    for row in rows:
        text = _text_of(row.aspect, row.value)
        text_before = _text_of(row.aspect, before.get((row.aspect, row.version - 1)))
        by = str(row.system_metadata.get("actor") or "")
        changed = text or str(CHANGED[row.aspect])
        events.append(TimelineEvent(row.created_at, "catalog", by, changed, before=text_before if text else ""))
    return events


def by_others(versions: QuerySet[CatalogAspect]) -> QuerySet[CatalogAspect]:
    """Filter to changes of the aspects in ASPECTS that weren't written by changesets.

    The first version of an aspect is not a change.
    """
    by_changeset = Q(system_metadata__runId__isnull=False, system_metadata__runId__startswith="cs-")
    return versions.filter(~by_changeset, version__gt=1, aspect__in=ASPECTS)


def _text_of(aspect: str, value: Mapping[str, Any] | None) -> str:
    """Return the description or the column names in an aspect's value, or "" if it has neither."""
    if aspect in ("datasetProperties", "editableDatasetProperties"):
        return str((value or {}).get("description") or "")
    if aspect == "schemaMetadata":
        names = [simple_path(str(column.get("fieldPath", ""))) for column in (value or {}).get("fields", [])]
        return gettext("Columns: %(names)s") % {"names": ", ".join(names)} if names else ""
    return ""


@dataclass
class ColumnStory:
    """A column's description before its last change by a changeset, the changeset's id, and the column's memories."""

    before: str = ""
    changeset: str = ""
    memories: list[MemoryRecord] = field(default_factory=list)


def of_columns(caller: Caller, urn: str) -> dict[str, ColumnStory]:
    """Return the columns with applied changesets or memories that the caller may see, by simple path."""
    stories: dict[str, ColumnStory] = {}
    changes = Change.objects.filter(
        urn=urn,
        aspect="editableSchemaMetadata",
        outcome=ChangeOutcome.LANDED,
        changeset__state__in=[ChangesetState.APPLIED, ChangesetState.PARTIAL],
        changeset__in=Changeset.objects.visible_to(caller),
    ).order_by("changeset__created_at")
    sources: dict[UUID, str] = {}
    for change in changes.filter(path__2="description"):
        name = simple_path(str(change.path[1]))
        stories[name] = ColumnStory(before=str(change.before or ""), changeset=change.changeset_id.hex)
        sources[change.changeset_id] = name
    applied = Insight.objects.visible_to(caller).filter(changeset__in=sources).select_related("record")
    for insight in applied.defer("record__search"):
        _add(stories, sources[insight.changeset_id], insight.record)  # type: ignore[index]  # filtered above
    rows = MemoryRecord.objects.visible_to(caller).facts().filter(related_columns__contains=[{"urn": urn}])
    rows = rows.filter(status__in=IN_USE).defer("search")
    for record in rows.order_by("-created_at")[:200]:
        for name in {simple_path(str(c["column"])) for c in record.related_columns if c.get("urn") == urn}:
            _add(stories, name, record)
    return stories


def _add(stories: dict[str, ColumnStory], name: str, record: MemoryRecord) -> None:
    story = stories.setdefault(name, ColumnStory())
    if record.pk not in {memory.pk for memory in story.memories}:
        story.memories.append(record)


def memory_counts(caller: Caller, urns: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return for each entity the number of memories about it that the caller may see, and how many are stale."""
    rows = MemoryRecord.objects.visible_to(caller).facts().filter(about_any(list(urns) or [""]))
    rows = rows.filter(status__in=IN_USE).order_by()
    urn = Func(F("entity_urns"), F("detected_urns"), function="unnest", arg_joiner=" || ", output_field=TextField())
    stale = Count("pk", filter=Q(status=Status.STALE), distinct=True)
    counts = rows.annotate(urn=urn).values("urn").annotate(total=Count("pk", distinct=True), stale=stale)
    return {row["urn"]: (row["total"], row["stale"]) for row in counts if row["urn"] in set(urns)}
