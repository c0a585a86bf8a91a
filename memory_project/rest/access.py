"""Permission to call an endpoint."""

from __future__ import annotations

import enum

from rest_framework.request import Request

from foundation.operations.errors import Forbidden
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request


class Access(enum.Enum):
    TOKEN = "any token, and a browser's session"
    ADMINISTRATION = "a token with the right `administer`, and a browser's session"


def caller_for_tool(request: Request, tool: str = "", command: str = "", access: Access = Access.TOKEN) -> Caller:
    """Return the caller. Raises Forbidden if the persona may not use the MCP tool or command of an endpoint.

    Tokens are made for agents. Without the right `administer`, the token of an admin can't manage accounts.
    """
    caller = caller_from_request(request, channel="rest")
    if tool and not caller.may_use(tool, command):
        raise Forbidden(f"the persona {caller.persona!r} may not use {' '.join(filter(None, (tool, command)))}")
    if access is Access.ADMINISTRATION and not caller.may_administer:
        raise Forbidden("this token has no right to `administer`: an admin can create one that has")
    return caller
