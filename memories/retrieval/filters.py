"""The rows of a search: the memories that a caller may see, narrowed by filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from foundation.database.queryset_sql import Condition, condition
from foundation.people.caller import Caller
from memories.models import Attachment, Feedback, MemoryRecord, Status, Verdict
from memories.models.record import MemoryRecordQuerySet, about_any
from memories.models.validity import EXPIRED, NOT_YET, is_over, is_to_come, outside, within

QUIET = "quiet"  # value of Filters.attachment: on request only, because nobody used the memory
COMPILED_KEPT = 1_000  # maximum number of compiled conditions in each cache; one takes a few kilobytes
# Values of Filters.validity besides EXPIRED and NOT_YET: memories that are true now, those that are not, or both
WITHIN, OUTSIDE, ANY_TIME = "within", "outside", "any"
RULES: Mapping[str, Callable[[], Q]] = {WITHIN: within, OUTSIDE: outside, EXPIRED: is_over, NOT_YET: is_to_come}


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
    validity: str = WITHIN  # WITHIN, OUTSIDE, ANY_TIME, EXPIRED or NOT_YET
    also_outside: Sequence[str] = ()  # also memories outside their validity that have one of these statuses
    unsettled: bool = False  # only the caller's own of which nobody has said what they are about


NO_FILTERS = Filters()
LISTED = (*Status.values, EXPIRED, NOT_YET)  # what a list can be narrowed to, in place of a status


def by_status(status: str) -> dict[str, Any]:
    """Return the fields of Filters for a status of a list, or for EXPIRED or NOT_YET in its place.

    Active memories are those that are true now. Any other status includes memories outside their validity.
    """
    if status in (EXPIRED, NOT_YET):
        return {"statuses": [Status.ACTIVE], "validity": status}
    return {"statuses": [status], "validity": WITHIN if status == Status.ACTIVE else ANY_TIME}


def _status_rule(filters: Filters) -> Q:
    rule = Q(status__in=list(filters.statuses))
    if filters.validity != ANY_TIME:
        rule &= RULES[filters.validity]()
    if filters.also_outside:
        rule |= Q(status__in=list(filters.also_outside)) & outside()
    return rule


def visible_rows(caller: Caller, filters: Filters) -> MemoryRecordQuerySet:
    """Return the memories that the caller may see, that are not due for deletion, and that meet the filters."""
    rows = MemoryRecord.objects.visible_to(caller).filter(_status_rule(filters))
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
    if filters.unsettled:
        rows = rows.filter(unsettled=True, created_by=caller.email)
    if filters.created_before:
        rows = rows.filter(created_at__lte=filters.created_before)
    return rows


def compiled_filters(
    caller: Caller, filters: Filters, *, exclude_marked_wrong: bool = False, prefix: str = "searched"
) -> Condition:
    """Compile `visible_rows` to SQL, optionally without the memories that the caller has marked as wrong.

    `prefix` begins the names of the parameters, so that a statement may have two conditions.
    """
    return _compiled_filters(_reader(caller), filters, exclude_marked_wrong, prefix)


def compiled_visibility(caller: Caller) -> Condition:
    return _compiled_visibility(_reader(caller))


Reader = tuple[str, frozenset[str], bool]  # the part of a Caller that decides what it may see, whatever its connection


def _reader(caller: Caller) -> Reader:
    return caller.email, caller.personas, caller.is_admin


def _caller_of(reader: Reader) -> Caller:
    email, personas, is_admin = reader
    return Caller(email=email, persona="", personas=personas, is_admin=is_admin)


@lru_cache(maxsize=COMPILED_KEPT)
def _compiled_filters(reader: Reader, filters: Filters, exclude_marked_wrong: bool, prefix: str) -> Condition:
    caller = _caller_of(reader)
    rows = visible_rows(caller, filters)
    if exclude_marked_wrong:
        # PostgreSQL runs a subquery with IN once. With EXISTS, it may run the subquery for each searched row.
        marked = Feedback.objects.filter(by=caller.email, verdict=Verdict.WRONG)
        rows = rows.exclude(pk__in=marked.values("record"))
    return condition(rows, prefix)


@lru_cache(maxsize=COMPILED_KEPT)
def _compiled_visibility(reader: Reader) -> Condition:
    return condition(MemoryRecord.objects.visible_to(_caller_of(reader)))
