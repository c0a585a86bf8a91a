"""Resources: a memory, an entity with what is known of it, and one's own insights, each read with the caller's eyes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote

from django.db import close_old_connections
from mcp.types import Resource, ResourceTemplate

from knowledge import catalog as catalogs
from knowledge import companions, evidence, queries, shapes
from knowledge.catalog.naming import entities_like, urn_of
from memories import queries as memories
from memories.access import Caller
from memories.contract.budget import fit
from memories.contract.errors import NotFound
from memories.history import history
from memories.retrieval.search import Filters
from memories.shapes import QUOTED, change_shape, memory_shape

SCHEME = "commonplace://"
MIME = "application/json"
MINE = f"{SCHEME}insights/mine"
OFFERED_MOST = 20  # values of a completion
LISTED_MOST = 20  # memories in a list


def resources_of(caller: Caller) -> list[Resource]:
    """What there is to read without asking for a name: one's own insights, and the newest memories."""
    close_old_connections()
    try:
        rows = memories.newest(caller, Filters(owner=caller.email))[:LISTED_MOST]
        memory_links = [
            Resource(uri=f"{SCHEME}memory/{record.pk.hex}", name=record.pk.hex, title=str(record), mime_type=MIME)
            for record in rows
        ]
        description = "What you proposed for the catalog, and what became of it."
        return [
            Resource(uri=MINE, name="insights", title="My insights", description=description, mime_type=MIME),
            *memory_links,
        ]
    finally:
        close_old_connections()


TEMPLATES = [
    ResourceTemplate(
        uri_template=f"{SCHEME}memory/{{id}}",
        name="memory",
        title="A memory",
        description="Its text, state and history.",
        mime_type=MIME,
    ),
    ResourceTemplate(
        uri_template=f"{SCHEME}entity/{{urn}}",
        name="entity",
        title="A catalog entity",
        description="What the catalog says of it, and the memories that come along unasked. A name will do.",
        mime_type=MIME,
    ),
]


def read(caller: Caller, uri: str) -> str:
    """The resource as JSON. Raises NotFound for what there is not, or is not the caller's to see."""
    close_old_connections()
    try:
        kind, _, key = uri.removeprefix(SCHEME).partition("/")
        reader = READERS.get(kind)
        if not uri.startswith(SCHEME) or reader is None:
            raise NotFound(f"there is no resource {uri[:200]!r}")
        return json.dumps(fit(reader(caller, unquote(key))), ensure_ascii=False)
    finally:
        close_old_connections()


def _memory(caller: Caller, key: str) -> dict[str, Any]:
    record = memories.get(caller, key)
    changes = [change_shape(change) for change in history(caller, record)]
    return {"memory": memory_shape(record), "history": changes, "about": QUOTED}


def _entity(caller: Caller, key: str) -> dict[str, Any]:
    urn = urn_of(key)
    knowledge = companions.known_of(caller, [urn], "", limit=companions.CANDIDATES)
    return {
        "entity": evidence.of_entity(catalogs.readable(), urn),
        "memories": [entry.shape() for entry in knowledge.entries],
        "not_shown": {"stale": knowledge.stale, "waiting_for_review": knowledge.waiting},
        "about": QUOTED,
    }


def _insights(caller: Caller, key: str) -> dict[str, Any]:
    if key != "mine":
        raise NotFound("there is no such list of insights")
    rows = queries.proposed_by(caller).order_by("-record__created_at")[:100]
    return {"insights": [shapes.insight_shape(insight) for insight in rows], "about": QUOTED}


READERS: dict[str, Callable[[Caller, str], dict[str, Any]]] = {
    "memory": _memory,
    "entity": _entity,
    "insights": _insights,
}


def completions(caller: Caller, argument: str, text: str) -> list[str]:
    """What an argument of a template may be: names of entities, ids of one's own memories."""
    close_old_connections()
    try:
        if argument == "urn":
            return [quote(row.urn, safe=":(),") for row in entities_like(text)[:OFFERED_MOST]]
        if argument == "id":
            rows = memories.newest(caller, Filters(owner=caller.email))[:500]
            return [pk.hex for pk in rows.values_list("pk", flat=True) if pk.hex.startswith(text)][:OFFERED_MOST]
        return []
    finally:
        close_old_connections()
