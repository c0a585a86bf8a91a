"""The part of the MCP server for resources, subscriptions to them, and prompts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import anyio
from anyio import to_thread
from mcp.server.apps import APP_MIME_TYPE
from mcp.server.lowlevel import NotificationOptions
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.subscriptions import ResourceUpdated, ServerEvent, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_REQUEST,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    EmptyResult,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PromptReference,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)
from mcp.types import Prompt as OfferedPrompt

from foundation.database import connections, identity
from foundation.operations.errors import DomainError, Invalid
from foundation.people.caller import Caller
from foundation.tools.declaration import Tool
from foundation.work.fair_queue import TURN_KEY
from memory_project.mcp import list_pages, mcp_apps, prompts, resource_watch, resources
from memory_project.mcp.authenticated_server import IdentifiedServer, Identify
from memory_project.mcp.gateway import offered_resources
from memory_project.mcp.gateway.calls import Gateway
from memory_project.mcp.gateway.names import RESOURCE_SCHEME
from memory_project.mcp.workers import Running
from memory_project.operating.replica.reading import route_reads
from memory_project.web import rate_limits

Result = TypeVar("Result")

MAX_STREAMS = 8  # maximum number of open subscription streams per person, in each process


class ReadingServer(IdentifiedServer):
    offered: Mapping[str, Tool]  # the tools of this server, by name
    gateway: Gateway

    def __init__(self, identify: Identify | None, **options: Any) -> None:
        self._streams: Counter[str] = Counter()
        # for clients with a protocol version before 2026-07-28: session and last known fingerprint by subscribed URI
        self._sessions: dict[str, Any] = {}
        self._stamps: dict[str, str] = {}
        self.listing_session: Any = None  # of such a client over stdio that has listed the tools
        super().__init__(identify, subscriptions=False, lifespan=_notify_subscribers, **options)
        add = self._lowlevel_server.add_request_handler
        add("completion/complete", CompleteRequestParams, self._complete)
        add("subscriptions/listen", SubscriptionsListenRequestParams, self._listen)
        if not self.is_stateless:
            self._lowlevel_server.create_initialization_options = partial(  # type: ignore[method-assign]
                self._lowlevel_server.create_initialization_options, NotificationOptions(tools_changed=True)
            )
            add("resources/subscribe", SubscribeRequestParams, self._subscribe)
            add("resources/unsubscribe", UnsubscribeRequestParams, self._unsubscribe)

    # -- resources ---------------------------------------------------------------------------------------

    async def _handle_list_resources(self, ctx: Any, params: Any) -> ListResourcesResult:
        # overrides a private method, because the public one does not get the request
        caller = await self.caller(ctx.request)
        after = list_pages.position_of(params.cursor if params else None)
        read = partial(resources.resources_of, caller, self.offered, after)
        try:
            links, following = await to_thread.run_sync(_acting_as, read, caller)
        except Invalid:
            raise list_pages.unknown_cursor() from None
        if not after and mcp_apps.is_supported(ctx):
            links += await to_thread.run_sync(_acting_as, partial(mcp_apps.views_of, caller, self.offered), caller)
        if not following:
            links += await to_thread.run_sync(offered_resources.resources_for, self.gateway, caller)
        return ListResourcesResult(resources=links, next_cursor=list_pages.to_cursor(following) if following else None)

    async def _handle_list_resource_templates(self, ctx: Any, params: Any) -> ListResourceTemplatesResult:
        caller = await self.caller(ctx.request)
        offered = await to_thread.run_sync(offered_resources.templates_for, self.gateway, caller)
        offered = [*resources.templates_of(caller, self.offered), *offered]
        templates, cursor = list_pages.page(offered, params and params.cursor, lambda template: template.name)
        return ListResourceTemplatesResult(resource_templates=list(templates), next_cursor=cursor)

    async def read_resource(
        self, uri: Any, context: Context[Any, Any] | None = None
    ) -> Iterable[ReadResourceContents] | InputRequiredResult:
        request = context.request_context.request if context else None
        if str(uri).startswith(RESOURCE_SCHEME):
            return await offered_resources.read(self.gateway, str(uri), request)
        data = await self.in_turn(request, self._read, str(uri), running=Running())
        if isinstance(data, str):
            return [ReadResourceContents(data, APP_MIME_TYPE, mcp_apps.META)]
        return [ReadResourceContents(resources.text_of(data, str(uri)), resources.MIME)]

    def _read(self, caller: Caller, uri: str) -> dict[str, Any] | str:
        """Return the data of a resource, or the document of a view."""
        started = time.perf_counter()
        error: DomainError | None = None
        data: dict[str, Any] = {}
        try:
            rate_limits.check(caller, writes=False)
            if uri.startswith(mcp_apps.SCHEME):
                return mcp_apps.read(caller, uri, self.offered)
            with route_reads(caller.email, only_reads=True):
                data = resources.read(caller, uri, self.offered)
        except DomainError as refused:
            error = refused
            raise
        finally:
            duration_ms = (time.perf_counter() - started) * 1000
            self.audit(
                caller, "resources/read", {"uri": uri}, data.get("memory", {}), error, duration_ms, only_read=True
            )
        return data

    async def _complete(self, ctx: Any, params: CompleteRequestParams) -> CompleteResult:
        caller = await self.caller(ctx.request)
        name = params.argument.name
        text = params.argument.value
        if isinstance(params.ref, PromptReference):
            prompts.check_arguments(await self.list_prompts(), params.ref.name, {name: text}, whole=False)
            return CompleteResult(completion=Completion(values=[], total=0, has_more=False))
        work = partial(resources.completions, caller, str(params.ref.uri), name, text, self.offered)
        values = await to_thread.run_sync(_acting_as, work, caller)
        return CompleteResult(completion=Completion(values=values, total=len(values), has_more=False))

    # -- subscriptions -----------------------------------------------------------------------------------

    def _read_stamps(self, request: Any, uris: Iterable[str]) -> resource_watch.Stamps:
        with connections.session():
            # On stdio, the caller has the current permissions; over HTTP, those at the start of the stream.
            caller = self._caller(request)
            stamp_of = partial(resources.fingerprint, caller, tools=self.offered)
            with identity.acting_as(caller):
                return {
                    resource_watch.LIST: resources.list_fingerprint(caller, self.offered),
                    resource_watch.TOOLS: self.gateway.fingerprint(caller),
                    **{uri: stamp_of(uri) for uri in uris},
                }

    async def _listen(self, ctx: Any, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        caller = await self.caller(ctx.request)
        uris = [str(uri) for uri in params.notifications.resource_subscriptions or ()]
        if len(uris) > resource_watch.MAX_RESOURCES:
            raise MCPError(
                INVALID_REQUEST, f"{len(uris)} are too many resources; at most {resource_watch.MAX_RESOURCES} a stream"
            )
        if self._streams[caller.email] >= MAX_STREAMS:
            raise MCPError(INVALID_REQUEST, f"you already have {MAX_STREAMS} open streams; close one of them")
        self._streams[caller.email] += 1
        if turn := ctx.request and ctx.request.scope.get(TURN_KEY):
            turn.end()  # a stream lasts for minutes and mostly waits
        try:
            return await resource_watch.listen(ctx, params, partial(self._read_stamps, ctx.request, uris))
        finally:
            self._streams[caller.email] -= 1

    async def _subscribe(self, ctx: Any, params: SubscribeRequestParams) -> EmptyResult:
        if len(self._sessions) >= resource_watch.MAX_RESOURCES:
            raise MCPError(INVALID_REQUEST, f"at most {resource_watch.MAX_RESOURCES} subscriptions: end one of them")
        uri = str(params.uri)
        self._stamps.update(await to_thread.run_sync(self._read_stamps, ctx.request, [uri]))
        self._sessions[uri] = ctx.session
        return EmptyResult()

    async def _unsubscribe(self, ctx: Any, params: UnsubscribeRequestParams) -> EmptyResult:
        self._sessions.pop(str(params.uri), None)
        return EmptyResult()

    async def notify_subscribers(self) -> None:
        """Notify clients with a protocol version before 2026-07-28 about changed resources. Never returns."""

        async def notify(event: ServerEvent) -> None:
            if isinstance(event, ResourceUpdated) and (session := self._sessions.get(event.uri)):
                await session.send_resource_updated(event.uri)
            elif isinstance(event, ToolsListChanged) and self.listing_session is not None:
                await self.listing_session.send_tool_list_changed()

        def read_stamps() -> resource_watch.Stamps:
            is_waiting = self._sessions or self.listing_session is not None
            return self._read_stamps(None, list(self._sessions)) if is_waiting else {}

        await resource_watch.publish_changes(read_stamps, notify, self._stamps)

    # -- prompts -----------------------------------------------------------------------------------------

    async def _handle_list_prompts(self, ctx: Any, params: Any) -> ListPromptsResult:
        entries, cursor = list_pages.page(
            await self.list_prompts(), params and params.cursor, lambda prompt: prompt.name
        )
        return ListPromptsResult(prompts=list(entries), next_cursor=cursor)

    async def list_prompts(self) -> list[OfferedPrompt]:
        return [*await super().list_prompts(), *await to_thread.run_sync(prompts.offered)]

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[Any, Any] | None = None
    ) -> GetPromptResult | InputRequiredResult:
        prompts.check_arguments(await self.list_prompts(), name, arguments or {})
        if name in prompts.PERSONAL and name in {prompt.name for prompt in await super().list_prompts()}:
            request = context.request_context.request if context else None
            return await self.in_turn(request, _personal_prompt, name, arguments or {}, running=Running())
        # a curated prompt can't replace a built-in one
        is_built_in = name in prompts.BUILT_IN_NAMES
        if not is_built_in and (curated := await to_thread.run_sync(prompts.answer, name)):
            return curated
        return await super().get_prompt(name, arguments, context)


def _personal_prompt(caller: Caller, name: str, arguments: Mapping[str, str]) -> GetPromptResult:
    rate_limits.check(caller, writes=False)
    return prompts.PERSONAL[name](caller, arguments)


def _acting_as(work: Callable[[], Result], caller: Caller) -> Result:
    with connections.session(), identity.acting_as(caller):
        return work()


@asynccontextmanager
async def _notify_subscribers(server: MCPServer[Any]) -> AsyncIterator[dict[str, Any]]:
    """Notify subscribers in the background while a stdio server runs. Passed to the SDK as the server's lifespan."""
    if not isinstance(server, ReadingServer) or server.is_stateless:
        yield {}
        return
    async with server.gateway.pool.running(), anyio.create_task_group() as tasks:
        tasks.start_soon(server.notify_subscribers)
        yield {}
        tasks.cancel_scope.cancel()
