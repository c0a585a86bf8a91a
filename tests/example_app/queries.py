from __future__ import annotations

from collections import Counter

from foundation.people.caller import Caller
from memories.models import MemoryRecord, Status
from tests.example_app.operations import CountMemories


def count_memories(caller: Caller, operation: CountMemories) -> dict[str, int]:
    """Return the number of active memories about the entity that the caller may read, by category."""
    records = MemoryRecord.objects.visible_to(caller).filter(
        status=Status.ACTIVE, entity_urns__contains=[operation.entity_urn]
    )
    return dict(Counter(records.values_list("category", flat=True)))
