from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from foundation.people.caller import ACT_FOR_USERS, Caller
from memories.conversation.mcp_tools import TOOLS
from memories.conversation.operations import StoreMessages
from memories.conversation.turns import store_messages
from memories.models import MemoryRecord, Tier
from tests.knowledge.conftest import cora, cora_user, curators, small_catalog  # noqa: F401 - fixtures

TOOL = {tool.name: tool for tool in TOOLS}
LONG = "I prefer the dark theme in every dashboard that I build."


def call(caller: Caller, tool: str, **arguments: Any) -> Any:
    """Call a tool. Return the data that the server would send."""
    response = TOOL[tool](caller, **{"user_id": caller.email, **arguments})
    return getattr(response, "data", response)


def store_turns(
    caller: Caller, *texts: str, conversation: str = "monday", user_id: str = "", **extra: Any
) -> list[MemoryRecord]:
    messages = [{"role": "human", "content": text, **extra} for text in texts]
    operation = {"user_id": user_id or caller.email, "conversation_id": conversation, "messages": messages}
    return store_messages(caller, StoreMessages.read(operation)).turns


def long_term_memory(turn: MemoryRecord) -> MemoryRecord:
    return MemoryRecord.objects.get(derived_from=turn.pk, tier=Tier.LONG_TERM)


@pytest.fixture
def service(olga: Caller) -> Caller:
    """A service that may act for many users."""
    return replace(olga, rights=frozenset({ACT_FOR_USERS}))
