"""Notifications of changed resources, for clients that have subscribed.

Since protocol version 2026-07-28, a client opens a stream of notifications, over stdio or HTTP. With earlier versions,
a client subscribes to single resources, which needs a lasting connection and therefore works over stdio only. Changes
are found by polling the database every POLL_S seconds, because they may come from another process.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from anyio import to_thread
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.types import SubscriptionsListenRequestParams, SubscriptionsListenResult

from foundation.operations.errors import DomainError
from memory_project.web import draining

POLL_S = 5.0  # seconds between two checks of the subscribed resources

log = logging.getLogger(__name__)

MAX_RESOURCES = 100  # maximum number of subscribed resources per stream, or per stdio client without a stream
LISTEN_FOR_S = 600  # seconds until a stream is closed; the client must authenticate again to open another one
DRAINING_POLL_S = 0.5  # seconds between two looks whether the server is about to stop, which ends all streams
LIST = ""  # key in Stamps that stands for the list of resources
TOOLS = "tools"  # key in Stamps that stands for the list of tools; no URI is like it

Stamps = Mapping[str, str]  # fingerprints by URI
ReadStamps = Callable[[], Stamps]


async def listen(
    ctx: Any, params: SubscriptionsListenRequestParams, read_stamps: ReadStamps
) -> SubscriptionsListenResult:
    """Serve one stream. `read_stamps` returns the current stamps of the subscribed resources and of the list."""
    bus = InMemorySubscriptionBus()
    handler = ListenHandler(bus)
    last_stamps = dict(await to_thread.run_sync(read_stamps))
    async with anyio.create_task_group() as tasks:

        async def publish_until_timeout() -> None:
            with anyio.move_on_after(LISTEN_FOR_S):
                await publish_changes(read_stamps, bus.publish, last_stamps)
            handler.close()

        async def close_when_draining() -> None:
            while not draining.is_draining():
                await anyio.sleep(DRAINING_POLL_S)
            handler.close()

        tasks.start_soon(publish_until_timeout)
        tasks.start_soon(close_when_draining)
        result = await handler(ctx, params)
        tasks.cancel_scope.cancel()
    return result


async def publish_changes(
    read_stamps: ReadStamps, publish: Callable[[ServerEvent], Awaitable[None]], last_stamps: dict[str, str]
) -> None:
    """Poll the stamps and publish each resource whose stamp differs from `last_stamps`. Never returns."""
    while True:
        await anyio.sleep(POLL_S)
        try:
            stamps = await to_thread.run_sync(read_stamps)
        except DomainError as error:  # the database is unavailable, or the account has been deactivated
            log.warning("could not check resources for changes: %s", error.message)
            continue
        for uri, stamp in stamps.items():
            if last_stamps.get(uri, stamp) != stamp:
                await publish(_event(uri))
        last_stamps.update(stamps)


def _event(key: str) -> ServerEvent:
    if key == LIST:
        return ResourcesListChanged()
    return ToolsListChanged() if key == TOOLS else ResourceUpdated(key)
