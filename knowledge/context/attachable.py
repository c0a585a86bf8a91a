"""The rule for memories that reach an agent unasked.

Without restrictions, any user could push a text into every agent (prompt injection). Therefore only these memories are
attached:

- the caller's own memories,
- memories shared with the active persona,
- memories that everyone may read, if they are applied insights, or if somebody who neither owns nor wrote them has
  verified them as they are now: a later change of the text, the entities or the readers ends the verification.

Which entities are detected in a text depends on the catalog. So a memory that is attached because of its verification
is attached only to calls about entities that were stated, or detected by the time of the verification.

Memories that are stale, await review or were marked wrong by the caller are not attached.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from django.db.models import Exists, OuterRef, Q

from foundation.database.queryset_sql import Condition, condition
from foundation.people.caller import Caller
from knowledge.models import Insight, InsightState
from memories.models import Feedback, Status, Verdict, Verification, Visibility
from memories.models.record import ATTACHED, MemoryRecordQuerySet
from memories.retrieval.filters import COMPILED_KEPT, Filters, visible_rows


def allowed_automatically(
    caller: Caller, urns: Sequence[str] | None = None, *, statuses: Sequence[Status] = (Status.ACTIVE,)
) -> MemoryRecordQuerySet:
    """Return the active memories that may be attached, because of these entities if `urns` are given.

    `statuses` may add those that are only counted.
    """
    # Each condition is a subquery, because rankings copy the conditions without joins.
    applied = Insight.objects.filter(pk=OuterRef("pk"), state=InsightState.APPLIED)
    undecided = Insight.objects.filter(pk=OuterRef("pk"), state__in=[InsightState.PENDING, InsightState.REJECTED])
    verified = Verification.objects.filter(record=OuterRef("pk")).by_second_person()
    if urns is not None:
        verified = verified.filter(Q(record__entity_urns__overlap=urns) | Q(detected_urns__overlap=urns))
    marked_wrong = Feedback.objects.filter(record=OuterRef("pk"), by=caller.email, verdict=Verdict.WRONG)
    rule = Q(created_by=caller.email) | Q(visibility=Visibility.PERSONA, persona=caller.persona)
    rule |= Q(visibility=Visibility.EVERYONE) & (Q(Exists(applied)) | Q(Exists(verified)))
    return visible_rows(caller, Filters(statuses=statuses)).filter(rule, ~Exists(undecided), ~Exists(marked_wrong))


def compiled_attachable(caller: Caller) -> Condition:
    """Return the SQL condition of the memories that may be attached unasked, whatever they are about."""
    return _compiled(caller.email, caller.persona, caller.personas, caller.is_admin)


@lru_cache(maxsize=COMPILED_KEPT)  # compiling takes longer than most searches
def _compiled(email: str, persona: str, personas: frozenset[str], is_admin: bool) -> Condition:
    caller = Caller(email=email, persona=persona, personas=personas, is_admin=is_admin)
    return condition(allowed_automatically(caller).filter(ATTACHED))


def attachable(caller: Caller, urns: Sequence[str]) -> MemoryRecordQuerySet:
    """Return the memories that may be attached unasked because of these entities."""
    return allowed_automatically(caller, urns).filter(ATTACHED)
