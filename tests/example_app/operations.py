from __future__ import annotations

from pydantic import Field

from memories.contract.fields import Urn
from memories.contract.operations import Operation


class CountMemories(Operation):
    """Count memories about an entity"""

    entity_urn: Urn = Field(description="The entity's DataHub URN.")
