from __future__ import annotations

from collections.abc import Sequence

from memories.extensions import MemoryExtension, PersonalDataColumn
from memory_project.operating.replica.models import Position


class ReplicaMemoryExtension(MemoryExtension):
    def personal_data(self) -> Sequence[PersonalDataColumn]:
        return [PersonalDataColumn(Position, "person__email")]
