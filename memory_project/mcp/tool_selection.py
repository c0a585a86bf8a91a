"""Selection of tools by clients over HTTP.

A client selects toolsets and read-only mode by path (`/mcp/x/memory,graph`, `/mcp/x/memory/readonly`) or by header
(X-MCP-Toolsets, X-MCP-Readonly), and asks for the schemas of responses with the query `output_schemas=true`. The
selection can only narrow the tools that the persona may use. Whatever is not understood is refused: otherwise a
misspelt restriction would offer tools that the client wanted to exclude.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers, QueryParams
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from foundation.operations.errors import DomainError, Invalid, NotFound
from foundation.tools.declaration import Tool
from memory_project.mcp.gateway import registry
from memory_project.mcp.gateway.registry import UpstreamSnapshot
from memory_project.operating.env import FALSE, TRUE
from memory_project.web.mcp_paths import ASKED_KEY, CHOOSING, PATH, READ_ONLY

TOOLSETS_HEADER, READ_ONLY_HEADER = "X-MCP-Toolsets", "X-MCP-Readonly"
OUTPUT_SCHEMAS = "output_schemas"  # query parameter
MAX_REMEMBERED = 1_000  # selections
SELECTION_KEY = "commonplace.selection"  # in the ASGI scope


@dataclass(frozen=True)
class ToolSelection:
    """What the client of one request has selected."""

    tools: Collection[Tool]  # all tools of the server
    toolsets: frozenset[str] | None  # None: it selected none
    default: Sequence[str] | None  # the server's toolsets for clients that select none; None means all
    is_read_only: bool = False
    output_schemas: bool = False
    memo: dict[Any, tuple[UpstreamSnapshot, tuple[str, ...]]] = field(default_factory=dict, compare=False, repr=False)

    def denied(self, persona_toolsets: Sequence[str]) -> tuple[str, ...]:
        """Return the tools and choices that were not selected, as names for Caller.tools_deny.

        `persona_toolsets` are those of the caller's persona, for clients that select none.
        """
        snapshot = registry.current()
        key = (self.toolsets, tuple(persona_toolsets), self.is_read_only)
        if (known := self.memo.get(key)) and known[0] is snapshot:
            return known[1]
        tools = [*self.tools, *snapshot.tools.values()]
        names = denied(tools, self.toolsets or persona_toolsets or self.default or ["all"], self.is_read_only)
        if len(self.memo) >= MAX_REMEMBERED:
            self.memo.clear()
        self.memo[key] = snapshot, names
        return names


def denied(tools: Iterable[Tool], toolsets: Collection[str], is_read_only: bool) -> tuple[str, ...]:
    """Return the names of tools outside the toolsets and, in read-only mode, of tools and choices that write."""
    names = [name for tool in tools for name in _denied_of(tool, toolsets, is_read_only)]
    return (*names, *_denied_upstreams(toolsets))


def _denied_upstreams(toolsets: Collection[str]) -> tuple[str, ...]:
    """Return names that deny the resources of upstreams outside the toolsets."""
    names = registry.current().upstreams if {"all", registry.TOOLSET}.isdisjoint(toolsets) else ()
    return tuple(f"{name}_resources" for name in names if name not in toolsets)


def _denied_of(tool: Tool, toolsets: Collection[str], is_read_only: bool) -> list[str]:
    offering = {"all", tool.toolset, *tool.further_toolsets, *(tool.reads_for if is_read_only else ())}
    if offering.isdisjoint(toolsets):
        return [tool.name]
    if not is_read_only or tool.hints.read_only:
        return []
    return (
        [f"{tool.name}.{choice}" for choice in tool.choices if choice not in tool.reading]
        if tool.reading
        else [tool.name]
    )


class ChooseTools:
    """ASGI middleware that stores the selection in the scope and rewrites the path to /mcp.

    `default` are the toolsets for clients that select none; None means all.
    """

    def __init__(self, app: ASGIApp, tools: Collection[Tool], default: Sequence[str] | None) -> None:
        self.app = app
        self.tools = tools
        self.default = default
        self.memo: dict[
            Any, tuple[UpstreamSnapshot, tuple[str, ...]]
        ] = {}  # of the selections; many clients select the same

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        try:
            selection = self.selection(scope["path"], Headers(scope=scope), QueryParams(scope["query_string"]))
        except DomainError as error:
            body = {"error": error.message, "code": error.code}
            return await JSONResponse(body, status_code=error.status)(scope, receive, send)
        at_mcp = {
            "path": PATH,
            "raw_path": PATH.encode(),
            "query_string": b"",
            SELECTION_KEY: selection,
            ASKED_KEY: scope["path"],
        }
        return await self.app({**scope, **at_mcp}, receive, send)

    def selection(self, path: str, headers: Headers, query: QueryParams) -> ToolSelection:
        """Return what the client has selected.

        Raises NotFound for an unknown toolset or path, and Invalid for a header or parameter that is not understood.
        """
        check_names(headers)
        if unknown_parameters := [name for name in query if name != OUTPUT_SCHEMAS]:
            raise Invalid(
                "is not a query parameter of this URL", field=unknown_parameters[0][:60], allowed=OUTPUT_SCHEMAS
            )
        text, _, ending = path.removeprefix(CHOOSING).partition("/") if path.startswith(CHOOSING) else ("", "", "")
        if ending not in ("", READ_ONLY):
            raise NotFound(f"unknown path {path[:80]}", allowed=f"{CHOOSING}TOOLSETS/{READ_ONLY}")
        by_path = _names(text)
        by_header = self.toolsets_in_header(headers)
        every = self.every_toolset() if by_path else set()
        if unknown := [name for name in by_path if name not in every | {"all"}]:
            raise NotFound(f"there is no toolset {unknown[0][:40]!r}", allowed=", ".join([*sorted(every), "all"]))
        if by_path and by_header and set(by_path) != set(by_header):
            raise Invalid("differs from the toolsets in the path", field=TOOLSETS_HEADER, allowed=", ".join(by_path))
        return ToolSelection(
            self.tools,
            frozenset(by_path or by_header) or None,
            self.default,
            is_read_only=ending == READ_ONLY or _is_on(READ_ONLY_HEADER, headers.getlist(READ_ONLY_HEADER)),
            output_schemas=_is_on(OUTPUT_SCHEMAS, query.getlist(OUTPUT_SCHEMAS)),
            memo=self.memo,
        )

    def every_toolset(self) -> set[str]:
        return {*(tool.toolset for tool in self.tools), *registry.current().upstreams}

    def toolsets_in_header(self, headers: Headers) -> list[str]:
        values = headers.getlist(TOOLSETS_HEADER)
        if not values:
            return []
        names = [name for value in values for name in _names(value)]
        allowed = [*sorted(self.every_toolset()), "all"]
        if not names:
            raise Invalid("is empty", field=TOOLSETS_HEADER, allowed=", ".join(allowed))
        if unknown := [name for name in names if name not in allowed]:
            raise Invalid(f"{unknown[0][:40]!r} is unknown", field=TOOLSETS_HEADER, allowed=", ".join(allowed))
        return names


def _is_on(field: str, texts: Sequence[str]) -> bool:
    """Return whether any of the values is true. Raises Invalid for a value that is not a boolean."""
    values = [text.strip().lower() for text in texts]
    if unknown := [value for value in values if value not in TRUE | FALSE]:
        allowed = "true, false, 1, 0, yes, no, on, off"
        raise Invalid(f"{unknown[0][:40]!r} is not a boolean", field=field, allowed=allowed)
    return any(value in TRUE for value in values)


def check_names(headers: Headers) -> None:
    """Raise Invalid for a misspelt name of a header, such as X-MCP-Read-Only or X_MCP_TOOLSETS."""
    known = [TOOLSETS_HEADER.lower(), READ_ONLY_HEADER.lower()]
    for name in headers:
        if name.replace("_", "-").startswith("x-mcp-") and name not in known:
            raise Invalid("is an unknown header", field=name[:60], allowed=f"{TOOLSETS_HEADER}, {READ_ONLY_HEADER}")


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
