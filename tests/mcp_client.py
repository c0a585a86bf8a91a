"""Clients of the MCP server in tests: in memory, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
from django.conf import settings as django_settings
from django.db import connections
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from foundation.people.caller import Caller
from memory_project.mcp.server import build_server

Action = Callable[[Any], Awaitable[Any]]


def as_caller(
    caller: Caller, action: Action, mode: str = "auto", toolsets: list[str] | None = None, **options: Any
) -> Any:
    """Run `action` with a client of an in-memory server that identifies every request as `caller`."""

    async def main() -> Any:
        server = build_server(toolsets=toolsets, identify=lambda request: caller)
        async with Client(server, mode=mode, **options) as client:
            return await action(client)

    try:
        return asyncio.run(main())
    finally:
        connections.close_all()


def content_of(result: Any) -> dict[str, Any]:
    return dict(json.loads(result.content[0].text))


def environment() -> dict[str, str]:
    """Return the environment of a child process that uses this test's database."""
    database = django_settings.DATABASES["default"]
    url = f"postgresql://{database['USER']}@/{database['NAME']}?host={database['HOST']}"
    variables = {"DATABASE_URL": url} if not database.get("PASSWORD") else {}
    return {**os.environ, **variables, "DJANGO_SETTINGS_MODULE": "memory_project.settings"}


def over_http(url: str, token: str, action: Action, path: str = "", **headers: str) -> Any:
    async def main() -> Any:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}", **headers}, timeout=60) as http_client,
            Client(streamable_http_client(f"{url}/mcp{path}", http_client=http_client)) as client,
        ):
            return await action(client)

    return asyncio.run(main())
