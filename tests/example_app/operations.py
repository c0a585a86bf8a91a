from __future__ import annotations

from pydantic import Field

from memories.contract.fields import EntityUrn
from memories.contract.operations import Operation


class CountMemories(Operation):
    """Count memories about an entity"""

    entity_urn: EntityUrn = Field(description="The entity's URN or name.")
