from __future__ import annotations

from typing_extensions import TypedDict

from foundation.people.caller import Caller
from foundation.tools.declaration import Hints, tool
from tests.example_app import queries
from tests.example_app.operations import CountMemories


class CountResponse(TypedDict):
    total: int
    by_category: dict[str, int]


@tool(toolset="example", title="Count memories", hints=Hints(read_only=True, idempotent=True))
def count_memories(caller: Caller, operation: CountMemories) -> CountResponse:
    """Count the memories about a catalog entity, by category."""
    counts = queries.count_memories(caller, operation)
    return {"total": sum(counts.values()), "by_category": counts}


TOOLS = [count_memories]
