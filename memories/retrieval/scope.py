"""Search scopes: the memories that a caller may see, narrowed by filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from memories.database.queryset_sql import Condition, condition
from memories.identity.caller import Caller
from memories.models import Feedback, MemoryRecord, Status, Verdict
from memories.models.record import MemoryRecordQuerySet

SCOPES_KEPT = 1_000  # compiled, of some kilobytes each


@dataclass(frozen=True)
class Filters:
    """Which of the visible memories are searched; all conditions hold together."""

    dimension: str = ""
    category: str = ""
    persona: str = ""
    tags: Sequence[str] = ()
    entity: str = ""
    statuses: Sequence[str] = (Status.ACTIVE,)
    owner: str = ""
    conversation_id: str = ""
    tiers: Sequence[str] = ()  # of conversations; otherwise whatever lasts, or all of the one conversation
    pairs_once: bool = False  # without long-term memories whose turn is there too
    created_before: datetime | None = None


NO_FILTERS = Filters()


def in_scope(caller: Caller, filters: Filters) -> MemoryRecordQuerySet:
    """The rows that this search is about: what the caller may see, narrowed."""
    rows = MemoryRecord.objects.visible_to(caller).filter(status__in=list(filters.statuses))
    living = MemoryRecord.objects.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=Now()))
    living = living.filter(status__in=list(filters.statuses))
    rows = rows.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=Now()))
    if filters.conversation_id:
        rows = rows.filter(conversation_id=filters.conversation_id)
    if filters.tiers:
        rows = rows.filter(tier__in=list(filters.tiers))
    elif not filters.conversation_id:
        rows = rows.lasting()
    if filters.pairs_once:
        rows = rows.exclude(Exists(living.filter(pk=OuterRef("derived_from"))))
    exact = {
        "dimension": filters.dimension,
        "category": filters.category,
        "persona": filters.persona,
        "created_by": filters.owner,
    }
    rows = rows.filter(**{column: value for column, value in exact.items() if value})
    if filters.tags:
        rows = rows.filter(tags__contains=list(filters.tags))
    if filters.entity:
        rows = rows.filter(entity_urns__contains=[filters.entity])
    if filters.created_before:
        rows = rows.filter(created_at__lte=filters.created_before)
    return rows


@lru_cache(maxsize=SCOPES_KEPT)
def compiled_scope(caller: Caller, filters: Filters, *, without_doubts: bool = False) -> Condition:
    """in_scope() as SQL, perhaps without what the reader has called wrong: compiled once for each reader and filter. It
    holds no values but theirs."""
    rows = in_scope(caller, filters)
    if without_doubts:  # as a list, which PostgreSQL reads once; with EXISTS it may look for each row of the scope
        doubts = Feedback.objects.filter(by=caller.email, verdict=Verdict.WRONG)
        rows = rows.exclude(pk__in=doubts.values("record"))
    return condition(rows)


@lru_cache(maxsize=SCOPES_KEPT)
def compiled_visibility(caller: Caller) -> Condition:
    return condition(MemoryRecord.objects.visible_to(caller))
