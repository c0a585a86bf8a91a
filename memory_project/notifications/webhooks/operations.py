from __future__ import annotations

from typing import Annotated

from pydantic import Field

from foundation.operations.fields import Id, OneOf, Text
from foundation.operations.operation import Operation
from memory_project.notifications.webhooks.events import KINDS

Url = Annotated[
    str,
    Text(1, 500),
    Field(description="https URL of a public host. Other hosts are possible if an operator allows them."),
]
Kinds = Annotated[
    list[Annotated[str, OneOf(KINDS)]],
    Field(min_length=1, max_length=len(KINDS), description="Kinds of events to send."),
]
Name = Annotated[str, Text(1, 120), Field(description="Where the events go, for example “Ticket system”.")]
WithTexts = Annotated[bool, Field(description="Whether texts that you may read are sent, or ids and states only.")]


class CreateEndpoint(Operation):
    """Let events be sent to a URL"""

    name: Name
    url: Url
    kinds: Kinds
    with_texts: WithTexts = False


class UpdateEndpoint(Operation):
    """Change where events are sent, and which"""

    endpoint_id: Id
    name: Name | None = None
    url: Url | None = None
    kinds: Kinds | None = None
    with_texts: WithTexts | None = None
