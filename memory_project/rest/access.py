from __future__ import annotations

from rest_framework.request import Request

from memories.contract.errors import Forbidden
from memories.identity.caller import Caller
from memories.identity.permissions import caller_from_request


def caller_for_tool(request: Request, tool: str, command: str = "") -> Caller:
    """Return the caller. Raises Forbidden if the persona may not use the MCP tool or command of an endpoint."""
    caller = caller_from_request(request, channel="rest")
    if tool and not caller.may_use(tool, command):
        raise Forbidden(f"the persona {caller.persona!r} may not use {' '.join(filter(None, (tool, command)))}")
    return caller
