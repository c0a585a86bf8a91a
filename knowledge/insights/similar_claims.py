"""The memory that is closest in meaning to an insight, and contradictions between the two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from foundation.database.queryset_sql import condition
from foundation.people.caller import Caller
from knowledge.models import Insight
from knowledge.models.insight import InsightState
from memories.models import IN_USE, MemoryRecord
from memories.retrieval.near_duplicates import nearest_of
from memories.texts.contradiction import contradiction

MIN_COSINE = 0.5  # minimum cosine of a memory shown with an insight (pairs in the demo have 0.60 to 0.95)


@dataclass(frozen=True)
class ClosestMemory:
    """The closest existing memory. `conflict` quotes numbers, dates or a negation that differ, or is empty."""

    record: MemoryRecord
    cosine: float
    conflict: str


# Up to this many insights are compared with all memories. In a longer list, insights about entities are only compared
# with memories about the same entities, which is faster.
MAX_COMPARED_WITH_ALL = 3


def closest_memories(caller: Caller, insights: Sequence[Insight]) -> dict[UUID, ClosestMemory]:
    """Return for each insight the closest current memory that the caller may read, if any is close enough.

    The memory whose text was proposed is left out.
    """
    if not insights:
        return {}
    living = MemoryRecord.objects.visible_to(caller).facts().filter(status__in=IN_USE)
    # Pending and rejected insights are not existing knowledge.
    undecided = Insight.objects.filter(state__in=[InsightState.PENDING, InsightState.REJECTED]).values("pk")
    searched = condition(living.exclude(pk__in=undecided))
    about = [insight.pk for insight in insights if insight.record.entity_urns and len(insights) > MAX_COMPARED_WITH_ALL]
    free = [insight.pk for insight in insights if insight.pk not in set(about)]
    besides = {insight.pk: insight.beside_id for insight in insights if insight.beside_id}
    similar = nearest_of(searched, about, threshold=MIN_COSINE, same_entities=True, besides=besides) if about else {}
    similar |= nearest_of(searched, free, threshold=MIN_COSINE, besides=besides) if free else {}
    by_id = {insight.pk: insight for insight in insights}
    return {
        pk: ClosestMemory(
            closest.record, closest.cosine, contradiction(by_id[pk].record.content, closest.record.content)
        )
        for pk, closest in similar.items()
    }
