"""Selection of tools by clients over HTTP.

A client selects toolsets and read-only mode by path (`/mcp/x/memory,graph`, `/mcp/x/memory/readonly`) or by header
(X-MCP-Toolsets, X-MCP-Readonly). The selection can only narrow the tools that the persona may use. Whatever is not
understood is refused: otherwise a misspelt restriction would offer tools that the client wanted to exclude.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from memories.contract.errors import DomainError, Invalid, NotFound
from memories.contract.tools import Tool
from memory_project.env import FALSE, TRUE

PATH = "/mcp"
CHOOSING = f"{PATH}/x/"
READ_ONLY = "readonly"
TOOLSETS_HEADER, READ_ONLY_HEADER = "X-MCP-Toolsets", "X-MCP-Readonly"
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
            if scope["query_string"]:
                raise Invalid("the URL has query parameters", allowed=f"{PATH}, or {CHOOSING}TOOLSETS/{READ_ONLY}")
            denied = self.denied(scope["path"], Headers(scope=scope))
        except DomainError as error:
            body = {"error": error.message, "code": error.code}
            return await JSONResponse(body, status_code=error.status)(scope, receive, send)
        at_mcp = {"path": PATH, "raw_path": PATH.encode(), DENIED_KEY: denied}
        return await self.app({**scope, **at_mcp}, receive, send)

    def denied(self, path: str, headers: Headers) -> tuple[str, ...]:
        """Return the names of the tools that were not selected.

        Raises NotFound for an unknown toolset or path, and Invalid for a header that is not understood.
        """
        check_names(headers)
        text, _, ending = path.removeprefix(CHOOSING).partition("/") if path.startswith(CHOOSING) else ("", "", "")
        if ending not in ("", READ_ONLY):
            raise NotFound(f"unknown path {path[:80]}", allowed=f"{CHOOSING}TOOLSETS/{READ_ONLY}")
        by_path, by_header = _names(text), self.toolsets_in_header(headers)
        every = {tool.toolset for tool in self.tools}
        if unknown := [name for name in by_path if name not in every | {"all"}]:
            raise NotFound(f"there is no toolset {unknown[0][:40]!r}", allowed=", ".join([*sorted(every), "all"]))
        if by_path and by_header and set(by_path) != set(by_header):
            raise Invalid("differs from the toolsets in the path", field=TOOLSETS_HEADER, allowed=", ".join(by_path))
        sets = set(by_path or by_header or self.default or ["all"])
        is_read_only = is_on(headers) or ending == READ_ONLY
        return tuple(
            tool.name
            for tool in self.tools
            if not ("all" in sets or tool.toolset in sets) or (is_read_only and not tool.hints.read_only)
        )

    def toolsets_in_header(self, headers: Headers) -> list[str]:
        values = headers.getlist(TOOLSETS_HEADER)
        names = [name for value in values for name in _names(value)]
        allowed = [*sorted({tool.toolset for tool in self.tools}), "all"]
        if values and not names:
            raise Invalid("is empty", field=TOOLSETS_HEADER, allowed=", ".join(allowed))
        if unknown := [name for name in names if name not in allowed]:
            raise Invalid(f"{unknown[0][:40]!r} is unknown", field=TOOLSETS_HEADER, allowed=", ".join(allowed))
        return names


def is_on(headers: Headers) -> bool:
    """Return whether any of the values of X-MCP-Readonly is true. Raises Invalid for a value that is not a boolean."""
    values = [value.strip().lower() for value in headers.getlist(READ_ONLY_HEADER)]
    if unknown := [value for value in values if value not in TRUE | FALSE]:
        allowed = "true, false, 1, 0, yes, no, on, off"
        raise Invalid(f"{unknown[0][:40]!r} is not a boolean", field=READ_ONLY_HEADER, allowed=allowed)
    return any(value in TRUE for value in values)


def check_names(headers: Headers) -> None:
    """Raise Invalid for a misspelt name of a header, such as X-MCP-Read-Only or X_MCP_TOOLSETS."""
    known = [TOOLSETS_HEADER.lower(), READ_ONLY_HEADER.lower()]
    for name in headers:
        if name.replace("_", "-").startswith("x-mcp-") and name not in known:
            raise Invalid("is an unknown header", field=name[:60], allowed=f"{TOOLSETS_HEADER}, {READ_ONLY_HEADER}")


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
