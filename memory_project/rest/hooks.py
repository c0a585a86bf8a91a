"""Endpoints for hooks of agents: programs that an agent's client runs at the start of a session, for each prompt, and
beside each tool call.
"""

from __future__ import annotations

from foundation.people.caller import Caller
from memory_project.agents import session_context
from memory_project.agents.session_context import HookResponse
from memory_project.rest.endpoints import Endpoint, route

TAG = "hooks"


def _session_start(caller: Caller, operation: session_context.StartSession) -> HookResponse:
    return session_context.start_session(caller, operation)


def _prompt(caller: Caller, operation: session_context.ReadPrompt) -> HookResponse:
    return session_context.read_prompt(caller, operation)


def _tool(caller: Caller, operation: session_context.SeeTool) -> HookResponse:
    return session_context.see_tool(caller, operation)


urlpatterns = [
    route(
        TAG, "hooks/session-start/", post=Endpoint("hook_session_start", _session_start, "memory_briefing", reads=True)
    ),
    route(TAG, "hooks/prompt/", post=Endpoint("hook_prompt", _prompt, "memory_recall", reads=True)),
    route(TAG, "hooks/tool/", post=Endpoint("hook_tool", _tool, "memory_recall", reads=True)),
]
