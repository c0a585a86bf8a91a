"""Resources of upstreams, under addresses that begin with upstream://NAME/. Lists are those of the last contact."""

from __future__ import annotations

import logging
import time
from base64 import b64decode
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.types import BlobResourceContents, ReadResourceResult, Resource, ResourceTemplate
from pydantic import ValidationError

from foundation.database import connections
from foundation.operations.errors import DomainError, NotFound
from foundation.people.caller import Caller
from foundation.tools.budget import fit_text
from memory_project.mcp.gateway import registry
from memory_project.mcp.gateway.declaration import Upstream
from memory_project.mcp.gateway.names import offered_uri, upstream_uri
from memory_project.mcp.workers import Running, in_thread
from memory_project.web import rate_limits

if TYPE_CHECKING:
    from memory_project.mcp.gateway.calls import Gateway

log = logging.getLogger(__name__)

TOOL = "resources"  # a persona, or a connection, that may not use NAME_resources gets no resources of NAME


def resources_for(gateway: Gateway, caller: Caller) -> list[Resource]:
    return [
        resource.model_copy(update={"uri": offered_uri(name, str(resource.uri))})
        for name, entry in _entries(gateway, caller, "resources")
        if (resource := _valid(Resource, entry)) is not None
    ]


def templates_for(gateway: Gateway, caller: Caller) -> list[ResourceTemplate]:
    return [
        template.model_copy(update={"uri_template": offered_uri(name, template.uri_template)})
        for name, entry in _entries(gateway, caller, "templates")
        if (template := _valid(ResourceTemplate, entry)) is not None
    ]


async def read(gateway: Gateway, uri: str, request: Any) -> list[ReadResourceContents]:
    """Read a resource of an upstream. Raises NotFound if the caller may not use the upstream."""
    server = gateway.server
    started = time.perf_counter()
    caller, upstream, inner = await server.in_turn(request, _admitted, gateway, uri, running=Running())
    error: DomainError | None = None
    try:
        async with gateway.pool.slot(upstream, caller):
            session = await gateway.pool.session(upstream, caller)
            result = await session.read(inner)
    except DomainError as failed:
        error = failed
        raise
    finally:
        gateway.pool.note(upstream, caller, error)
        duration_ms = (time.perf_counter() - started) * 1000
        audit = partial(server.audit, caller, "resources/read", {"uri": uri}, {}, error, duration_ms, only_read=True)
        await in_thread(audit, running=Running(), limiter=server.threads())
    return _contents(result)


def _admitted(caller: Caller, gateway: Gateway, uri: str) -> tuple[Caller, Upstream, str]:
    rate_limits.check(caller, writes=False)
    name, inner = upstream_uri(uri)
    upstream = registry.refreshed().upstreams.get(name)
    if upstream is None or not inner or not _is_open(gateway, upstream, caller):
        raise NotFound("there is no such resource", field="uri")
    return caller, upstream, inner


def _entries(gateway: Gateway, caller: Caller, kind: str) -> Iterator[tuple[str, Any]]:
    with connections.session():
        snapshot = registry.refreshed()
    for name, status in snapshot.statuses.items():
        upstream = snapshot.upstreams.get(name)
        if upstream is not None and _is_open(gateway, upstream, caller):
            yield from ((name, entry) for entry in getattr(status, kind))


def _is_open(gateway: Gateway, upstream: Upstream, caller: Caller) -> bool:
    offers = gateway.offers(upstream)
    return offers and registry.is_permitted(caller, upstream) and caller.may_use(f"{upstream.name}_{TOOL}")


def _contents(result: ReadResourceResult) -> list[ReadResourceContents]:
    return [
        ReadResourceContents(b64decode(part.blob), part.mime_type)
        if isinstance(part, BlobResourceContents)
        else ReadResourceContents(fit_text(part.text), part.mime_type)
        for part in result.contents
    ]


def _valid(kind: Any, entry: Any) -> Any:
    try:
        return kind.model_validate(entry)
    except ValidationError:
        return None
