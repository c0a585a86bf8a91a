"""Bearer-token authentication of MCP over HTTP, before the request reaches the SDK."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from foundation.database import connections
from foundation.operations.errors import DomainError, Forbidden
from foundation.people.caller import Caller
from foundation.people.permissions import build_caller
from foundation.tools.declaration import Tool
from memory_project.accounts.issuer import IssuedToken
from memory_project.accounts.tokens import find_token, token_expiry
from memory_project.mcp.authenticated_server import SCOPE_KEY
from memory_project.mcp.caller_cache import CallerCache
from memory_project.mcp.gateway import exchange, registry
from memory_project.mcp.tool_selection import SELECTION_KEY, denied
from memory_project.web.bearer import bearer
from memory_project.web.refusals import challenge

HINT = "create one on the Connect page or with the command `createtoken EMAIL`"
MAX_SESSION = 120  # maximum number of characters of an MCP session id that are stored


class RequireToken:
    """ASGI middleware that puts the Caller into the scope, or responds with a JSON error.

    The status is 401, or that of the database error if the token can't be looked up.
    """

    def __init__(self, app: ASGIApp, tools: Collection[Tool] = (), cache: CallerCache | None = None) -> None:
        self.app = app
        self.tools = tools
        self.cache = cache or CallerCache()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        text = bearer(Headers(scope=scope).get("authorization", ""))
        session = Headers(scope=scope).get("mcp-session-id", "")[:MAX_SESSION]
        if not text:
            return await self._refuse(f"no token: {HINT}", scope, receive, send)
        try:
            known = self.cache.find(text, registry.recent())
            caller = known or await to_thread.run_sync(caller_for_token, text, self.tools, self.cache)
        except Forbidden as error:
            return await self._refuse(error.message, scope, receive, send)
        except DomainError as error:  # a database error
            body = {"error": error.message, "code": error.code}
            return await JSONResponse(body, status_code=error.status)(scope, receive, send)
        if caller is None:
            return await self._refuse(f"this token is unknown, expired or revoked: {HINT}", scope, receive, send)
        not_selected = scope[SELECTION_KEY].denied(caller.toolsets) if SELECTION_KEY in scope else ()
        scope[SCOPE_KEY] = replace(
            caller,
            session=session if session.isprintable() else "",
            tools_deny=(*caller.tools_deny, *not_selected),
        )
        return await self.app(scope, receive, send)

    async def _refuse(self, message: str, scope: Scope, receive: Receive, send: Send) -> None:
        response = JSONResponse(
            {"error": message, "code": "forbidden"}, status_code=401, headers={"WWW-Authenticate": challenge(scope)}
        )
        await response(scope, receive, send)


def caller_for_token(text: str, tools: Collection[Tool] = (), cache: CallerCache | None = None) -> Caller | None:
    """Return the Caller for a token, or None if the token is not valid. Keep it in the cache.

    Raises Forbidden if the token's user may not use its persona, or has just been deactivated.
    """
    with connections.session():
        generation = cache.generation() if cache else 0
        token = find_token(text)
        if token is None:
            return None
        caller = build_caller(
            token.user,
            channel="mcp-http",
            persona=token.persona,
            rights=frozenset(token.rights),
            connection=token.connection,
            graph=token.graph,
            limits=token.limits,
        )
        if token.connection == exchange.CONNECTION and registry.exchanges():
            exchange.remember(caller, text)
        snapshot = registry.refreshed()
        not_allowed = denied([*tools, *snapshot.tools.values()], token.toolsets or ["all"], token.read_only)
        caller = replace(
            caller,
            toolsets=tuple(token.toolsets) or caller.toolsets,
            tools_deny=(*caller.tools_deny, *not_allowed),
        )
        if cache and not isinstance(token, IssuedToken):
            expires_at = token_expiry(token, text)
            cache.keep(text, caller, basis=snapshot, expires_at=expires_at, generation=generation)
        return caller
