"""Personal data of the gateway: a wipe deletes a person's credentials. They are neither handed over nor exported."""

from __future__ import annotations

from collections.abc import Sequence

from memories.extensions import MemoryExtension, PersonalDataColumn
from memory_project.mcp.gateway.models import PendingSignIn, PinDecision, StoredCredential


class GatewayMemoryExtension(MemoryExtension):
    def personal_data(self) -> Sequence[PersonalDataColumn]:
        return [
            PersonalDataColumn(StoredCredential, "owner"),
            PersonalDataColumn(StoredCredential, "stored_by", stays=True),  # of the service's, for everybody
            PersonalDataColumn(PendingSignIn, "owner"),
            PersonalDataColumn(PendingSignIn, "created_by"),
            PersonalDataColumn(PinDecision, "decided_by", stays=True),
            PersonalDataColumn(PinDecision, "undone_by", stays=True),
        ]
