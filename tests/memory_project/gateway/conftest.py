from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from mcp import Client

from foundation.people.caller import Caller
from memory_project.mcp.gateway import registry
from memory_project.mcp.server import build_server
from tests.knowledge.conftest import cora, cora_user, curators, small_catalog

__all__ = ["cora", "cora_user", "curators", "small_catalog"]
ROOT = Path(__file__).resolve().parents[3]
LISTED_WITHIN_S = 20.0

Declare = Callable[..., Path]


@pytest.fixture
def upstream(tmp_path: Path, settings: Any) -> Iterator[Declare]:
    """Return a function that declares the upstream `wh`. It returns the folder that the upstream reads."""

    def declare(*lines: str, personas: str = '["*"]') -> Path:
        text = f"""
            [upstreams.wh]
            command = "{sys.executable}"
            args = ["-m", "tests.upstream", "{tmp_path}"]
            cwd = "{ROOT}"
            personas = {personas}
        """
        file = tmp_path / "upstreams.toml"
        file.write_text("\n".join([text, *lines]))
        settings.MCP_UPSTREAMS = str(file)
        return tmp_path

    registry.forget()
    yield declare
    registry.forget()


def as_caller(caller: Caller, action: Callable[[Any], Awaitable[Any]], mode: str = "auto", **options: Any) -> Any:
    """Run `action` with a client of an in-memory server that identifies every request as `caller`."""
    build = {name: options.pop(name) for name in ("toolsets", "read_only") if name in options}

    async def main() -> Any:
        server = build_server(identify=lambda request: caller, **build)
        async with Client(server, mode=mode, **options) as client:
            return await action(client)

    try:
        return asyncio.run(main())
    finally:
        connections.close_all()


async def listed(client: Any, name: str = "wh_run_query") -> dict[str, Any]:
    """Return the tools by name, as soon as the list has the tool `name`."""
    async with asyncio.timeout(LISTED_WITHIN_S):
        while True:
            tools = {tool.name: tool for tool in (await client.list_tools(cache_mode="refresh")).tools}
            if name in tools:
                return tools
            await asyncio.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
