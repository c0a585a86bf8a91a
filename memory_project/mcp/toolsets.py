"""Selection of tools by clients over HTTP.

A client selects toolsets and read-only mode by path (`/mcp/x/memory,graph`, `/mcp/x/memory/readonly`) or by header
(X-MCP-Toolsets, X-MCP-Readonly). The selection can only narrow the tools that the persona may use.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from memories.contract.errors import NotFound
from memories.contract.tools import Tool

PATH = "/mcp"
CHOOSING = f"{PATH}/x/"
READ_ONLY = "readonly"
DENIED_KEY = "commonplace.tools_denied"  # in the ASGI scope: names of the tools that were not selected


class ChooseTools:
    """ASGI middleware that stores the selection in the scope and rewrites the path to /mcp.

    `default` are the toolsets for clients that select none; None means all.
    """

    def __init__(self, app: ASGIApp, tools: Collection[Tool], default: Sequence[str] | None) -> None:
        self.app = app
        self.tools = tools
        self.default = default

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        try:
            denied = self.denied(scope["path"], Headers(scope=scope))
        except NotFound as error:
            body = {"error": error.message, "code": error.code}
            return await JSONResponse(body, status_code=error.status)(scope, receive, send)
        at_mcp = {"path": PATH, "raw_path": PATH.encode(), DENIED_KEY: denied}
        return await self.app({**scope, **at_mcp}, receive, send)

    def denied(self, path: str, headers: Headers) -> tuple[str, ...]:
        """Return the names of the tools that were not selected. Raises NotFound for an unknown toolset or path."""
        text, _, ending = path.removeprefix(CHOOSING).partition("/") if path.startswith(CHOOSING) else ("", "", "")
        names = [part.strip() for part in (text or headers.get("x-mcp-toolsets", "")).split(",") if part.strip()]
        every = {tool.toolset for tool in self.tools}
        if unknown := [name for name in names if name not in every | {"all"}]:
            raise NotFound(f"there is no toolset {unknown[0][:40]!r}", allowed=", ".join([*sorted(every), "all"]))
        if ending not in ("", READ_ONLY):
            raise NotFound(f"unknown path {path[:80]}", allowed=f"{CHOOSING}TOOLSETS/{READ_ONLY}")
        sets = set(names) or set(self.default or ["all"])
        is_read_only = ending == READ_ONLY or headers.get("x-mcp-readonly", "").strip().lower() in ("1", "true", "yes")
        return tuple(
            tool.name
            for tool in self.tools
            if not ("all" in sets or tool.toolset in sets) or (is_read_only and not tool.hints.read_only)
        )
