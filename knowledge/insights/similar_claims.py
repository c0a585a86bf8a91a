"""What is known already beside what is claimed: the nearest memory by meaning, and where the two disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from knowledge.insights.contradiction import contradiction
from knowledge.models import Insight
from knowledge.models.insight import InsightState
from memories.database.queryset_sql import condition
from memories.identity.caller import Caller
from memories.models import MemoryRecord, Status
from memories.retrieval.near_duplicates import nearest_of

NEAR = 0.5  # cosine from which a memory is worth showing beside a claim (the demo's pairs lie from .60 to .95)


@dataclass(frozen=True)
class ClosestMemory:
    """The nearest existing claim; `conflict` names a number, date or negation that differs, or is empty."""

    record: MemoryRecord
    cosine: float
    conflict: str


FEW = 3  # insights for which everything is compared; of more, those with entities are compared about these


def closest_memories(caller: Caller, insights: Sequence[Insight]) -> dict[UUID, ClosestMemory]:
    """By insight, the nearest living memory that this curator sees; what waits for review itself is no claim yet. In a
    list, an insight about entities is compared with what is known of these."""
    if not insights:
        return {}
    living = MemoryRecord.objects.visible_to(caller).facts().filter(status__in=[Status.ACTIVE, Status.STALE])
    undecided = Insight.objects.filter(state__in=[InsightState.PENDING, InsightState.REJECTED]).values("pk")
    scope = condition(living.exclude(pk__in=undecided))
    about = [insight.pk for insight in insights if insight.record.entity_urns and len(insights) > FEW]
    free = [insight.pk for insight in insights if insight.pk not in set(about)]
    similar = nearest_of(scope, about, threshold=NEAR, same_entities=True) if about else {}
    similar |= nearest_of(scope, free, threshold=NEAR) if free else {}
    texts = {insight.pk: insight.record.content for insight in insights}
    return {
        pk: ClosestMemory(near.record, near.cosine, contradiction(texts[pk], near.record.content))
        for pk, near in similar.items()
    }
