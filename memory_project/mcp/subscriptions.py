"""Changes of resources, told to clients that subscribed to them.

Since 2026-07-28 a client listens on a stream of its own, over HTTP too; before, it subscribes to single resources,
which only a connection that lasts can serve: stdio. Either way the database is looked at every few seconds: whoever
wrote may have been another process.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from anyio import to_thread
from django.conf import settings
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
)
from mcp.types import SubscriptionsListenRequestParams, SubscriptionsListenResult

from memories.contract.errors import DomainError

log = logging.getLogger(__name__)

MAX_RESOURCES = 100  # that one client is told about
LISTEN_FOR_S = 600  # then the stream ends in good order, and the client, identified anew, listens again
LIST = ""  # stands for the list of resources where stamps are keyed by URI

Stamps = Mapping[str, str]
Look = Callable[[], Stamps]


async def listen(ctx: Any, params: SubscriptionsListenRequestParams, look: Look) -> SubscriptionsListenResult:
    """Serves one stream; `look` answers the stamps of what it asks for."""
    bus = InMemorySubscriptionBus()
    handler = ListenHandler(bus)
    last_stamps = dict(await to_thread.run_sync(look))
    async with anyio.create_task_group() as tasks:

        async def end_in_time() -> None:
            with anyio.move_on_after(LISTEN_FOR_S):
                await tell_changes(look, bus.publish, last_stamps)
            handler.close()

        tasks.start_soon(end_in_time)
        result = await handler(ctx, params)
        tasks.cancel_scope.cancel()
    return result


async def tell_changes(look: Look, tell: Callable[[ServerEvent], Awaitable[None]], last_stamps: dict[str, str]) -> None:
    """Looks again and again, and tells each resource whose stamp is not the known one. Never returns."""
    while True:
        await anyio.sleep(settings.RESOURCE_POLL_S)
        try:
            stamps = await to_thread.run_sync(look)
        except DomainError as error:  # the database is away, or the person has been switched off
            log.warning("resources could not be looked at: %s", error.message)
            continue
        for uri, stamp in stamps.items():
            if last_stamps.get(uri, stamp) != stamp:
                await tell(ResourcesListChanged() if uri == LIST else ResourceUpdated(uri))
        last_stamps.update(stamps)
