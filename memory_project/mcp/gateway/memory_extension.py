"""Decisions about tools of upstreams name their operator. A wipe replaces the name, and the decisions stay in force."""

from __future__ import annotations

from collections.abc import Sequence

from memories.extensions import MemoryExtension, PersonalDataColumn
from memory_project.mcp.gateway.models import PinDecision


class GatewayMemoryExtension(MemoryExtension):
    def personal_data(self) -> Sequence[PersonalDataColumn]:
        return [
            PersonalDataColumn(PinDecision, "decided_by", stays=True),
            PersonalDataColumn(PinDecision, "undone_by", stays=True),
        ]
