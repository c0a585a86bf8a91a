"""What is known of each upstream: when it was reached, what it offers, and what failed last. Runs in worker threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils import timezone
from pydantic import BaseModel

from foundation.database import connections, identity
from foundation.people.caller import Caller
from memory_project.mcp.gateway import pins, registry
from memory_project.mcp.gateway.credential_owners import NOBODY
from memory_project.mcp.gateway.declaration import Upstream
from memory_project.mcp.gateway.models import UpstreamStatus

LIST_EVERY_S = 300.0  # seconds between two lists of an upstream that is not in use


def due() -> list[tuple[Upstream, Caller]]:
    """Return the upstreams that no process has listed lately, and who lists them.

    Those of the service are listed by nobody, those with a token exchange by a person whose token this process has just
    seen, and those with credentials of people when somebody stores or uses one.
    """
    with connections.session():
        snapshot = registry.refreshed(at_once=True)
        with identity.service("gateway"):
            statuses = {status.name: status for status in UpstreamStatus.objects.all()}
    now = timezone.now()
    found = []
    for name, upstream in snapshot.upstreams.items():
        status = statuses.get(name)
        seen = [at for at in (status.listed_at, status.failed_at) if at] if status else []
        if seen and (now - max(seen)).total_seconds() <= LIST_EVERY_S:
            continue
        if upstream.credentials == "service":
            found.append((upstream, NOBODY))
        elif upstream.credentials == "exchange":
            from memory_project.mcp.gateway import exchange  # noqa: PLC0415 - few upstreams exchange tokens

            found += [(upstream, person) for person in exchange.present() if registry.is_permitted(person, upstream)]
    return found


def record(
    upstream: Upstream,
    tools: list[dict[str, Any]],
    resources: Sequence[BaseModel],
    templates: Sequence[BaseModel],
    server: str,
) -> None:
    """Record a complete list of what an upstream offers, and compare the tools with their pins."""
    with connections.session():
        own = registry.own_names()
        pins.record_listing(upstream.name, tools, own_names=own, reviews_all=upstream.review == "all")
        now = timezone.now()
        fields = {
            "reached_at": now,
            "listed_at": now,
            "server": server,
            "resources": [_plain(resource) for resource in resources],
            "templates": [_plain(template) for template in templates],
        }
        with identity.service("gateway"):
            UpstreamStatus.objects.update_or_create(name=upstream.name, defaults=fields)
        registry.refreshed(at_once=True)


def note_failure(name: str, problem: str) -> None:
    with connections.session(), identity.service("gateway"):
        fields = {"failed_at": timezone.now(), "error": problem[:500]}
        UpstreamStatus.objects.update_or_create(name=name, defaults=fields)


def _plain(entry: BaseModel) -> dict[str, Any]:
    return entry.model_dump(mode="json", by_alias=True, exclude_none=True)
