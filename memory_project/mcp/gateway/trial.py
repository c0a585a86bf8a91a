"""Trying a credential: a connection of its own that lists the tools, which also pins those of a per-person upstream."""

from __future__ import annotations

import anyio

from memories.contract import errors
from memories.identity.caller import Caller
from memory_project.mcp.gateway import credentials, status
from memory_project.mcp.gateway.declaration import Upstream
from memory_project.mcp.gateway.session import UpstreamSession


def list_tools(upstream: Upstream, caller: Caller) -> int:
    """List the tools with the caller's credential, and return how many there are. Raises DomainError."""
    return anyio.run(_listed, upstream, caller)


async def _listed(upstream: Upstream, caller: Caller) -> int:
    credential = await anyio.to_thread.run_sync(credentials.for_connection, upstream, caller)
    session = UpstreamSession(upstream, credential.headers, credential.auth, lambda: None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.own)
        await session.ready.wait()
        if not session.is_open:
            problem = session.problem or "the connection ended at once"
        else:
            problem = ""
            try:
                tools, resources, templates = await session.list_offer()
            except errors.DomainError as error:
                problem = error.message
        session.close()
    if problem:
        raise errors.Upstream(problem.removeprefix(f"{upstream.name}: "))
    await anyio.to_thread.run_sync(status.record, upstream, tools, resources, templates, session.server)
    return len(tools)
