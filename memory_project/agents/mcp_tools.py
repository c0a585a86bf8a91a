"""The tool of the toolset memory that needs more than memories: the briefing."""

from __future__ import annotations

from foundation.people.caller import Caller
from foundation.tools.declaration import Hints, ToolResponse, tool
from memory_project.agents import briefing
from memory_project.agents.briefing import BriefingResponse


@tool(toolset="memory", title="Brief me", hints=Hints(read_only=True, idempotent=True), rare=["interview"])
def memory_briefing(caller: Caller, operation: briefing.BriefMe) -> ToolResponse[BriefingResponse]:
    """Start a session: what is certain, changed, contested or asked of you. Each line cites its memory."""
    response = briefing.brief_me(caller, operation)
    return ToolResponse(response, text=f"{response['text']}\n{response['about']}")


TOOLS = [memory_briefing]
