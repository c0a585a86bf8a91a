"""News of a period for one user. The page This week, the weekly mail and the briefing share these queries.

Every function returns only what the caller may read now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, F, Func, Max, Q, QuerySet, TextField, Value
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from foundation.people.caller import Caller
from knowledge.insights import queries
from knowledge.models import CatalogAspect, Decision, DecisionKind, Insight, InsightState
from knowledge.models.insight import InsightQuerySet
from knowledge.news.period import NewsPeriod
from knowledge.news.timeline import by_others
from memories.models import DOUBTS, IN_USE, Impression, MemoryRecord, Report, Status, Visibility
from memories.models.record import MemoryRecordQuerySet
from memories.queries import reviewable_stale
from memories.retrieval.filters import Filters, visible_rows

MAX_LISTED = 10  # maximum number of entries of each list
MAX_ENTITIES = 100  # maximum number of a person's entities; those with the most memories are kept
NEW, CORRECTED, STALE, SUPERSEDED = "new", "corrected", "stale", "superseded"  # kinds of MemoryChange

# Aspects of the catalog → the part of the entity that changed
PARTS: Mapping[str, Promise] = {
    "datasetProperties": gettext_lazy("description in the source"),
    "editableDatasetProperties": gettext_lazy("description"),
    "schemaMetadata": gettext_lazy("columns"),
    "editableSchemaMetadata": gettext_lazy("column descriptions"),
    "globalTags": gettext_lazy("tags"),
    "glossaryTerms": gettext_lazy("terms"),
    "ownership": gettext_lazy("owners"),
    "deprecation": gettext_lazy("deprecation"),
    "status": gettext_lazy("removal"),
    "domains": gettext_lazy("domain"),
    "upstreamLineage": gettext_lazy("upstream lineage"),
    "institutionalMemory": gettext_lazy("links"),
    "structuredProperties": gettext_lazy("properties"),
}


@dataclass(frozen=True)
class MemoryChange:
    kind: str  # NEW, CORRECTED, STALE or SUPERSEDED
    at: datetime
    record_id: UUID
    content: str
    by: str
    entity_urns: Sequence[str]
    reason: str  # why the memory is stale


@dataclass(frozen=True)
class CatalogChange:
    urn: str
    at: datetime
    parts: Sequence[Promise]


def entities_of(caller: Caller) -> list[str]:
    """Return the entities of the caller's own memories, and of memories attached to the caller's tool responses.

    Only active and stale memories count.
    """
    # A UNION, because with OR PostgreSQL would read all rows that the caller may read.
    own = MemoryRecord.objects.filter(created_by=caller.email).order_by().values("pk")
    shown = Impression.objects.filter(to=caller.email).order_by().values("record_id")
    rows = MemoryRecord.objects.visible_to(caller).facts().filter(status__in=IN_USE)
    rows = rows.filter(pk__in=own.union(shown)).order_by()
    urn = Func(F("entity_urns"), function="unnest", output_field=TextField())
    counts = rows.annotate(urn=urn).values("urn").annotate(memories=Count("pk")).order_by("-memories", "urn")
    return [row["urn"] for row in counts[:MAX_ENTITIES]]


def memory_changes(caller: Caller, urns: Sequence[str], period: NewsPeriod) -> list[MemoryChange]:
    """Return memories about these entities that were written by others, went stale or were superseded, newest first."""
    about = MemoryRecord.objects.visible_to(caller).facts().filter(entity_urns__overlap=list(urns) or [""])
    columns = ("pk", "content", "created_by", "entity_urns", "stale_reason", "supersedes_id")
    written = about.filter(period.holds("created_at"), status__in=IN_USE).exclude(created_by=caller.email)
    parts: list[Any] = [
        rows.order_by(f"-{at}", "pk").annotate(kind=Value(kind), moment=F(at)).values(*columns, "kind", "moment")
        for kind, at, rows in (
            (NEW, "created_at", written),
            (STALE, "stale_at", about.filter(period.holds("stale_at"), status=Status.STALE)),
            (SUPERSEDED, "superseded_at", about.filter(period.holds("superseded_at"), status=Status.SUPERSEDED)),
        )
    ]
    first, *others = (rows[:MAX_LISTED] for rows in parts)
    found = first.union(*others, all=True).order_by("-moment", "pk")[:MAX_LISTED]
    return [
        MemoryChange(
            kind=CORRECTED if row["kind"] == NEW and row["supersedes_id"] else row["kind"],
            at=row["moment"],
            record_id=row["pk"],
            content=row["content"],
            by=row["created_by"],
            entity_urns=row["entity_urns"],
            reason=row["stale_reason"],
        )
        for row in found
    ]


def catalog_changes(urns: Sequence[str], period: NewsPeriod) -> list[CatalogChange]:
    """Return the entities that others than Commonplace changed in the catalog or the copy of DataHub, newest first."""
    rows = by_others(CatalogAspect.objects.filter(period.holds("created_at"), urn__in=urns)).order_by()
    changes = rows.values("urn").annotate(at=Max("created_at"), aspects=ArrayAgg("aspect", distinct=True))
    return [
        CatalogChange(row["urn"], row["at"], [PARTS[aspect] for aspect in row["aspects"] if aspect in PARTS])
        for row in changes.order_by("-at", "urn")[:MAX_LISTED]
    ]


def shared_memories(caller: Caller, period: NewsPeriod) -> MemoryRecordQuerySet:
    """Return memories that others have written in the period and shared with the caller, newest first."""
    rows = visible_rows(caller, Filters()).filter(period.holds("created_at")).exclude(created_by=caller.email)
    # Admins may read the private memories of others, but nobody has shared these with them.
    return rows.exclude(visibility=Visibility.PRIVATE).defer("search").order_by("-created_at", "pk")


def decided(caller: Caller, period: NewsPeriod) -> InsightQuerySet:
    """Return the caller's insights that were decided or applied in the period, with their state as of now."""
    rows = queries.proposed_by(caller).filter(period.holds("reviewed_at") | period.holds("applied_at"))
    return rows.defer("record__search").order_by("-reviewed_at", "pk")


def doubts(caller: Caller, period: NewsPeriod) -> QuerySet[Report]:
    """Return the reports of the period that the caller's memories are wrong or outdated, newest first.

    Of a person's reports about one memory, only the newest one is returned.
    """
    mine = Report.objects.filter(period.holds("at"), record__created_by=caller.email, verdict__in=DOUBTS)
    newest = mine.order_by("record_id", "by", "-at", "-pk").distinct("record_id", "by").values("pk")
    rows = Report.objects.filter(pk__in=newest).select_related("record").defer("record__search")
    return rows.order_by("-at", "-pk")


def questions(caller: Caller) -> QuerySet[Decision]:
    """Return the newest question of each of the caller's insights with an open one."""
    asked = Q(insight__question_at__isnull=False, insight__record__created_by=caller.email)
    rows = Decision.objects.filter(asked, kind=DecisionKind.NEEDS_MORE, insight__record__status__in=IN_USE)
    newest = rows.order_by("insight_id", "-at", "-pk").distinct("insight_id")
    return newest.select_related("insight__record").defer("insight__record__search")


def countable(caller: Caller, period: NewsPeriod) -> dict[str, QuerySet[Any]]:
    """Return what is counted, by the name of the count, for `capped_counts`."""
    mine = queries.proposed_by(caller)
    waiting = queries.waiting(caller) if queries.may_curate(caller) else Insight.objects.none()
    return {
        "new": shared_memories(caller, period),
        "proposed": mine.filter(period.holds("record__created_at")),
        "approved": mine.filter(period.holds("reviewed_at"), state=InsightState.APPROVED),
        "applied": mine.filter(period.holds("applied_at"), state=InsightState.APPLIED),
        "rejected": mine.filter(period.holds("reviewed_at"), state=InsightState.REJECTED),
        "doubts": doubts(caller, period),
        "stale": reviewable_stale(caller),
        "waiting": waiting,
    }
