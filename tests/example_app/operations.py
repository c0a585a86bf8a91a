from __future__ import annotations

from pydantic import Field

from foundation.operations.fields import EntityUrn
from foundation.operations.operation import Operation


class CountMemories(Operation):
    """Count memories about an entity"""

    entity_urn: EntityUrn = Field(description="The entity's URN or name.")
