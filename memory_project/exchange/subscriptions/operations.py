from __future__ import annotations

from typing import Annotated

from pydantic import Field

from foundation.operations.fields import Id, OneOf, Text
from foundation.operations.operation import Operation
from memories.models import Visibility
from memories.operations import VisibilityName
from memory_project.exchange.subscriptions.models import SubscriptionKind

Name = Annotated[str, Text(1, 80)]
Minutes = Annotated[int, Field(ge=5, le=43_200, description="Minutes between two runs.")]
SubscriptionId = Annotated[Id, Field(alias="id", description="Id of the subscription.")]
KEEP, FORGET = "keep", "forget"


class AddSubscription(Operation):
    """Keep the texts of a source in step with memories"""

    name: Name = Field(description="Shown in lists.")
    kind: Annotated[str, OneOf(SubscriptionKind.values)] = Field(description="Kind of source.")
    location: Annotated[str, Text(1, 500)] = Field(
        description="Absolute path of the folder, or https, ssh or file URL of the repository."
    )
    branch: Annotated[str, Text(0, 200)] = Field("", description="The default branch if not given.")
    subfolder: Annotated[str, Text(0, 300)] = Field("", description="Only files below this folder are read.")
    persona: Annotated[str, Text(0, 60)] = Field("", description="Your active persona if not given.")
    visibility: VisibilityName = Field(Visibility.PERSONA.value, description="Readers of the memories.")
    interval_min: Minutes = 60


class ChangeSubscription(Operation):
    """Rename, pause or continue a subscription, or change its interval"""

    subscription_id: SubscriptionId
    name: Name | None = None
    interval_min: Minutes | None = None
    is_paused: bool | None = None


class RunSubscription(Operation):
    """Compare a source with its memories now"""

    subscription_id: SubscriptionId
    plan: bool = Field(False, description="Only report what would change.")
    removals: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        0, description="Confirms that so many files may be missing, as the waiting run says."
    )


class RemoveSubscription(Operation):
    """End a subscription"""

    subscription_id: SubscriptionId
    memories: Annotated[str, OneOf((KEEP, FORGET))] = Field(KEEP, description="What becomes of its memories.")
