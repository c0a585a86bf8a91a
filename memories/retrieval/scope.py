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
from memories.models import Attachment, Feedback, MemoryRecord, Status, Verdict
from memories.models.record import MemoryRecordQuerySet, about_any

QUIET = "quiet"  # value of Filters.attachment: on request only, because nobody used the memory
SCOPES_KEPT = 1_000  # maximum number of compiled scopes in each cache; a scope takes a few kilobytes


@dataclass(frozen=True)
class Filters:
    """Conditions on the memories that are searched. A memory must meet all of them."""

    dimension: str = ""
    category: str = ""
    persona: str = ""
    tags: Sequence[str] = ()
    entity: str = ""
    statuses: Sequence[str] = (Status.ACTIVE,)
    owner: str = ""
    conversation_id: str = ""
    tiers: Sequence[str] = ()  # if empty: all tiers with a `conversation_id`, all except short-term turns without one
    # Leave out long-term memories derived from a turn that has one of `statuses` and has not expired.
    pairs_once: bool = False
    attachment: str = ""  # a value of Attachment, or "quiet"
    created_before: datetime | None = None  # memories created at this time are included


NO_FILTERS = Filters()


def in_scope(caller: Caller, filters: Filters) -> MemoryRecordQuerySet:
    """Return the memories that the caller may see, that have not expired, and that meet the filters."""
    rows = MemoryRecord.objects.visible_to(caller).filter(status__in=list(filters.statuses))
    turns = MemoryRecord.objects.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=Now()))
    turns = turns.filter(status__in=list(filters.statuses))
    rows = rows.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=Now()))
    if filters.conversation_id:
        rows = rows.filter(conversation_id=filters.conversation_id)
    if filters.tiers:
        rows = rows.filter(tier__in=list(filters.tiers))
    elif not filters.conversation_id:
        rows = rows.lasting()
    if filters.pairs_once:
        rows = rows.exclude(Exists(turns.filter(pk=OuterRef("derived_from"))))
    exact = {
        "dimension": filters.dimension,
        "category": filters.category,
        "persona": filters.persona,
        "created_by": filters.owner,
    }
    rows = rows.filter(**{column: value for column, value in exact.items() if value})
    if filters.tags:
        rows = rows.filter(tags__contains=list(filters.tags))
    if filters.attachment:
        quiet = Q(attachment=Attachment.AUTOMATIC, quiet_at__isnull=False)
        rows = rows.filter(quiet if filters.attachment == QUIET else Q(attachment=filters.attachment))
    if filters.entity:
        rows = rows.filter(about_any([filters.entity]))
    if filters.created_before:
        rows = rows.filter(created_at__lte=filters.created_before)
    return rows


@lru_cache(maxsize=SCOPES_KEPT)  # the SQL depends only on the caller and the filters
def compiled_scope(caller: Caller, filters: Filters, *, exclude_marked_wrong: bool = False) -> Condition:
    """Compile `in_scope` to SQL, optionally without the memories that the caller has marked as wrong."""
    rows = in_scope(caller, filters)
    if exclude_marked_wrong:
        # PostgreSQL runs a subquery with IN once. With EXISTS, it may run the subquery for each row of the scope.
        marked = Feedback.objects.filter(by=caller.email, verdict=Verdict.WRONG)
        rows = rows.exclude(pk__in=marked.values("record"))
    return condition(rows)


@lru_cache(maxsize=SCOPES_KEPT)
def compiled_visibility(caller: Caller) -> Condition:
    return condition(MemoryRecord.objects.visible_to(caller))
