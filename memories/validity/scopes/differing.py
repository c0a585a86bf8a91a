"""Memories of one answer that hold in different scopes, so that only the person who asks knows which one is meant."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from memories import extensions
from memories.models import MemoryRecord
from memories.validity.scopes.choices import labels
from memories.validity.scopes.names import are_different

MAX_COMPARED = 10  # memories with a scope whose texts are compared


def labels_and_note(records: Sequence[MemoryRecord]) -> tuple[dict[str, str], str]:
    """Return the labels of the records' scopes, and a note on those that hold in different scopes, or "".

    Two memories count if they are about the same entity, or if their texts contradict each other. Nothing is queried
    if no record has a scope.
    """
    scoped = [record for record in records if record.scope]
    if not scoped:
        return {}, ""
    names = labels(record.scope for record in scoped)
    concerned: dict[MemoryRecord, None] = {}
    for one, other in combinations(scoped[:MAX_COMPARED], 2):
        if are_different(one.scope, other.scope) and _belong_together(one, other):
            concerned |= dict.fromkeys((one, other))
    if not concerned:
        return names, ""
    listed = ", ".join(dict.fromkeys(names[record.scope] for record in concerned))
    return names, f"{len(concerned)} memories hold in different scopes ({listed}): ask which is meant"


def _belong_together(one: MemoryRecord, other: MemoryRecord) -> bool:
    about = {*one.entity_urns, *one.detected_urns}
    if not about.isdisjoint([*other.entity_urns, *other.detected_urns]):
        return True
    return extensions.contradiction(one.content, other.content)
