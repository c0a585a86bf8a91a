"""One connection to an upstream for one credential.

Its owner task opens and closes it, because the cancel scopes of the SDK's client must be left in the task that entered
them. Calls come from other tasks.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import IO, Any

import anyio
import httpx2
import mcp.types as types
from mcp.client import Client
from mcp.client.session import ClientRequestContext
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError

from foundation.operations import errors
from memory_project import __version__
from memory_project.mcp.gateway import pins
from memory_project.mcp.gateway.credentials import Authentication
from memory_project.mcp.gateway.declaration import Upstream
from memory_project.mcp.gateway.failures import Lost, TimedOut
from memory_project.mcp.gateway.http_client import http_client

log = logging.getLogger(__name__)

CONNECT_S = 20.0  # seconds for starting a program or opening a connection, with the handshake
LIST_S = 30.0
MAX_PAGES = 50  # of one list
MAX_RESOURCES = 500
MAX_MESSAGE = 500  # characters of an upstream's error that are passed on
# JSON-RPC error codes after which the session can't be used any more
CLOSED = (types.CONNECTION_CLOSED,)
RESULT: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)

AskPerson = Callable[[types.ElicitRequestParams], Awaitable[types.ElicitResult | types.ErrorData]]
Secrets = Mapping[str, str]  # headers for HTTP


class UpstreamSession:
    """`changed` is called when the upstream says that its list of tools has changed."""

    def __init__(
        self,
        upstream: Upstream,
        headers: Secrets,
        auth: Authentication | None,
        changed: Callable[[], None],
        version: str = "",
    ) -> None:
        self.upstream = upstream
        self.version = version  # of the credential
        self.hashes: dict[str, str] = {}  # of the tools as they were listed on this session
        self.listed_at = 0.0
        self.has_changed = False  # the upstream has said so since then
        self.used_at = time.monotonic()
        self.running: list[AskPerson | None] = []  # for each running call, how to ask its person
        self.problem = ""  # why it ended
        self.ready = anyio.Event()  # is connected, or has failed
        self._headers = dict(headers)
        self._auth = auth
        self._changed = changed
        self._closing = anyio.Event()
        self._client: Client | None = None
        self._stderr: IO[str] | None = None

    @property
    def is_open(self) -> bool:
        return self._client is not None and not self._closing.is_set()

    @property
    def server(self) -> str:
        info = self._client.server_info if self._client else None
        return f"{info.name} {info.version}"[:200] if info else ""

    def close(self) -> None:
        self._closing.set()

    async def own(self) -> None:
        """Open the connection, keep it until `close` is called or it breaks, and close it. Never raises."""
        with tempfile.TemporaryFile("w+", errors="replace") as self._stderr:
            try:
                with anyio.CancelScope() as connecting:
                    connecting.deadline = anyio.current_time() + CONNECT_S
                    async with AsyncExitStack() as stack:
                        client = await stack.enter_async_context(await self._connected(stack))
                        connecting.deadline = float("inf")
                        self._client = client
                        self.ready.set()
                        await self._closing.wait()
                if connecting.cancelled_caught and not self._client:
                    self.problem = f"did not connect within {CONNECT_S:.0f} s"
            except Exception as error:  # whatever ends this connection must not end the others
                self._ended_with(error)
            finally:
                self._client = None
                self._closing.set()
                self._stderr = None
                self.ready.set()

    def _ended_with(self, error: BaseException) -> None:
        """Keep what ended the connection first, with the last line that the program wrote to stderr."""
        refused = self._auth.problem if self._auth else ""
        self.problem = self.problem or refused or f"{problem_of(error)}{_last_line(self._stderr)}"

    async def _connected(self, stack: AsyncExitStack) -> Client:
        upstream = self.upstream
        transport: Any
        if upstream.command:
            arguments = [str(Path(__file__).with_name("relay.py")), str(upstream.max_bytes), upstream.command]
            environment = upstream.filled(upstream.env)
            arguments += [upstream.fill(argument) for argument in upstream.args]
            parameters = StdioServerParameters(
                command=sys.executable, args=["-I", *arguments], env=environment, cwd=upstream.cwd or None
            )
            transport = stdio_client(parameters, errlog=self._stderr)  # type: ignore[arg-type]
        else:
            client = await stack.enter_async_context(http_client(upstream, self._headers, self._auth))
            transport = streamable_http_client(upstream.url, http_client=client, max_sse_event_size=upstream.max_bytes)
        return Client(
            _watched(transport, self.close),
            client_info=types.Implementation(name="commonplace", version=__version__),
            elicitation_callback=self._elicit,
            message_handler=self._notified,
            mode=upstream.protocol,
            cache=None,
        )

    async def list_offer(self) -> tuple[list[dict[str, Any]], list[Any], list[Any]]:
        """Return the tools as JSON, the resources and the templates of resources. Raises errors.Upstream."""
        client = self._open_client()
        self.has_changed = False  # set again if it changes while it is listed
        try:
            with anyio.fail_after(LIST_S):
                # by the session, which learns from them which arguments the upstream wants as HTTP headers
                tools = await _pages(client.session.list_tools, "tools")
                resources = []
                templates = []
                if client.server_capabilities.resources is not None:
                    resources = await _pages(client.session.list_resources, "resources", may_lack=True)
                    templates = await _pages(
                        client.session.list_resource_templates, "resource_templates", may_lack=True
                    )
        except Exception as error:
            raise self._failure(error, "could not list its tools") from None
        listed = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
        self.hashes = {str(tool["name"]): pins.hash_of(pins.canonical(tool)) for tool in listed}
        self.listed_at = time.monotonic()
        return listed, resources[:MAX_RESOURCES], templates[:MAX_RESOURCES]

    async def call(
        self, params: types.CallToolRequestParams, progress: ProgressFnT, ask: AskPerson | None
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Call a tool. The result is not checked against the output schema, which upstreams often break themselves.

        Raises Lost if the connection ended, and errors.Upstream for any other failure. A call is never repeated. The
        caller limits the time.
        """
        client = self._open_client()
        self.running.append(ask)
        try:
            request = types.CallToolRequest(params=params)
            return await client.session.send_request(request, RESULT, progress_callback=progress)
        except Exception as error:
            raise self._failure(error, "failed") from None
        finally:
            self.running.remove(ask)
            self.used_at = time.monotonic()

    async def read(self, uri: str) -> types.ReadResourceResult:
        client = self._open_client()
        self.running.append(None)
        try:
            with anyio.fail_after(self.upstream.timeout_s):
                return await client.session.read_resource(uri)
        except Exception as error:
            raise self._failure(error, "could not read the resource") from None
        finally:
            self.running.remove(None)
            self.used_at = time.monotonic()

    def _open_client(self) -> Client:
        if self._client is None or self._closing.is_set():
            raise Lost(f"{self.upstream.name}: {self.problem or 'the connection has ended'}")
        return self._client

    def _failure(self, error: Exception, what: str) -> errors.DomainError:
        name = self.upstream.name
        if self._auth and self._auth.problem:
            self._ended_with(error)
            self.close()
            return errors.Degraded(self._auth.problem)
        if isinstance(error, TimeoutError) or (isinstance(error, MCPError) and error.code == types.REQUEST_TIMEOUT):
            return TimedOut(self.upstream)
        if isinstance(error, ValidationError):
            return errors.Upstream(f"{name}: answered with something that is no result of MCP")
        if isinstance(error, MCPError) and error.code not in CLOSED and error.message != "Session terminated":
            return errors.Upstream(f"{name}: {what}: {error.message[:MAX_MESSAGE]}")
        self._ended_with(error)
        self.close()
        return Lost(f"{name}: the connection was lost ({self.problem}); whether the call was carried out is unknown")

    async def _elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Pass a question of the upstream on to the person of the only running call."""
        if len(self.running) != 1:
            return _refusal("several calls are running, so that the question can't be assigned to one")
        if (ask := self.running[0]) is None:
            return _refusal("the client of this call can't ask its person")
        return await ask(params)

    async def _notified(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification | types.ResourceListChangedNotification):
            self._changed()


class _Watched:
    """The read stream of a transport, which reports its end. The SDK's client does not."""

    def __init__(self, stream: Any, ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        return await self._stream.__anext__()

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> bool | None:
        self._ended()
        ended: bool | None = await self._stream.__aexit__(*raised)
        return ended


@asynccontextmanager
async def _watched(transport: Any, ended: Callable[[], None]) -> AsyncIterator[Any]:
    async with transport as (reading, writing):
        yield _Watched(reading, ended), writing


async def _pages(method: Any, field: str, *, may_lack: bool = False) -> list[Any]:
    """Return the entries of all pages. With `may_lack`, a server that does not know the method has none."""
    entries: list[Any] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        try:
            page = await method(params=types.PaginatedRequestParams(cursor=cursor))
        except MCPError as error:
            if may_lack and error.code == types.METHOD_NOT_FOUND:
                break
            raise
        entries += getattr(page, field)
        cursor = page.next_cursor
        if not cursor:
            break
    return entries


def _refusal(message: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=message)


def problem_of(error: BaseException) -> str:
    """Return what is wrong, without addresses and credentials that an exception's text may hold."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, errors.DomainError | MCPError):
        return error.message[:MAX_MESSAGE]
    if isinstance(error, httpx2.HTTPStatusError):
        return f"answered with status {error.response.status_code}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, httpx2.HTTPError | httpx2.StreamError):
        return f"{type(error).__name__}: {error}"[:MAX_MESSAGE]
    log.info("an upstream connection ended", exc_info=error)
    return type(error).__name__


def _last_line(stderr: IO[str] | None) -> str:
    if stderr is None:
        return ""
    stderr.seek(0)
    lines = [line.strip() for line in stderr.read()[-4_000:].splitlines() if line.strip()]
    return f" ({lines[-1][:200]})" if lines else ""
