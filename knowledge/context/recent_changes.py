"""News for one user since a given time, about their entities and their proposals."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import Count, F, Func, Max, Q, TextField

from foundation.people.caller import Caller
from knowledge.context import attached_memories
from knowledge.context.attachable import allowed_automatically
from knowledge.insights import queries
from knowledge.models import CatalogAspect, Decision
from knowledge.news.timeline import ASPECTS, by_others
from memories.models import Impression, MemoryRecord, Status
from memories.models.record import MemoryRecordQuerySet

MAX_ENTITIES = 100  # maximum number of entities; those with the most memories are kept
MAX_LISTED = 10  # maximum number of entries in each list
MAX_TEXT = 280  # maximum number of bytes of each text


def about_my_entities(caller: Caller, since: datetime) -> dict[str, Any]:
    """Return news about the caller's entities and proposals, newest first, with at most MAX_LISTED entries per kind."""
    urns = entities_of(caller)
    proposed = queries.proposed_by(caller)
    questioned = proposed.filter(question_at__isnull=False, record__status__in=queries.LIVING)
    news: dict[str, Any] = {
        "since": since.isoformat(),
        "entities": len(urns),
        "new": [_memory(record) for record in _new(caller, urns, since)],
        "no_longer_holds": [
            {**_memory(record), "status": record.status, "reason": record.stale_reason}
            for record in _ended(caller, urns, since)
        ],
        "catalog": _catalog_changes(urns, since),
        "decisions": [_decision(decision) for decision in _decisions(caller, since)],
        "questions_to_you": [insight.pk.hex for insight in questioned.order_by("-question_at")[:MAX_LISTED]],
        "about": attached_memories.ABOUT,
    }
    if caller.is_curator:
        news["waiting_for_review"] = queries.waiting(caller).count()
    return news


def entities_of(caller: Caller) -> list[str]:
    """Return the entities of the caller's own memories, and of memories attached to the caller's tool responses.

    Only active and stale memories count.
    """
    # A UNION, because with OR PostgreSQL would read all rows that the caller may read.
    own = MemoryRecord.objects.filter(created_by=caller.email).order_by().values("pk")
    shown = Impression.objects.filter(to=caller.email).order_by().values("record_id")
    rows = MemoryRecord.objects.visible_to(caller).facts().filter(status__in=[Status.ACTIVE, Status.STALE])
    rows = rows.filter(pk__in=own.union(shown)).order_by()
    urn = Func(F("entity_urns"), function="unnest", output_field=TextField())
    counts = rows.annotate(urn=urn).values("urn").annotate(memories=Count("pk")).order_by("-memories", "urn")
    return [row["urn"] for row in counts[:MAX_ENTITIES]]


def _new(caller: Caller, urns: list[str], since: datetime) -> Iterable[MemoryRecord]:
    # New texts are pushed to the agent, so the rule for attached memories applies.
    rows = allowed_automatically(caller).filter(entity_urns__overlap=urns or [""], updated_at__gt=since)
    return _newest(rows.exclude(created_by=caller.email), "updated_at")


def _ended(caller: Caller, urns: list[str], since: datetime) -> Iterable[MemoryRecord]:
    rows = MemoryRecord.objects.visible_to(caller).facts().filter(entity_urns__overlap=urns or [""])
    stale = Q(status=Status.STALE, stale_at__gt=since)
    return _newest(rows.filter(stale | Q(status=Status.SUPERSEDED, superseded_at__gt=since)), "updated_at")


def _newest(rows: MemoryRecordQuerySet, by: str) -> Iterable[MemoryRecord]:
    return rows.defer("search").order_by(f"-{by}", "pk")[:MAX_LISTED]


def _catalog_changes(urns: list[str], since: datetime) -> list[dict[str, Any]]:
    """Return changes that weren't made by changesets, from the embedded catalog or the copy of DataHub."""
    rows = by_others(CatalogAspect.objects.filter(urn__in=urns, created_at__gt=since)).order_by()
    changes = rows.values("urn", "aspect").annotate(at=Max("created_at")).order_by("-at", "urn", "aspect")
    return [
        {"urn": row["urn"], "changed": ASPECTS[row["aspect"]], "at": row["at"].isoformat()}
        for row in changes[:MAX_LISTED]
    ]


def _decisions(caller: Caller, since: datetime) -> Iterable[Decision]:
    rows = Decision.objects.filter(insight__in=queries.proposed_by(caller), at__gt=since).exclude(by=caller.email)
    return rows.select_related("insight__record").order_by("-at", "-pk")[:MAX_LISTED]


def _memory(record: MemoryRecord) -> dict[str, Any]:
    return {
        "id": record.pk.hex,
        "content": attached_memories.cut(record.content, MAX_TEXT),
        "created_by": record.created_by,
        **({"edited_by": record.edited_by} if record.edited_by else {}),
        "at": record.updated_at.isoformat(),
        "entity_urns": record.entity_urns[:5],
    }


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        "id": decision.insight_id.hex,
        "content": attached_memories.cut(decision.insight.record.content, MAX_TEXT),
        "decision": decision.kind,
        "by": decision.by,
        "at": decision.at.isoformat(),
        "notes": attached_memories.cut(decision.notes, MAX_TEXT),
    }
