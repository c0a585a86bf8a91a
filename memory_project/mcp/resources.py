"""MCP resources: memories, catalog entities with their memories, the caller's insights, and the knowledge graph.

A caller may read a kind of resource if they may use the tool that returns the same data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from mcp.types import Resource, ResourceTemplate

from foundation.operations.errors import Forbidden, Invalid, NotFound
from foundation.operations.paging import page
from foundation.people.caller import Caller
from foundation.tools.budget import fit
from knowledge import responses
from knowledge.catalog.current import get_readable_catalog
from knowledge.catalog.name_resolution import entities_like, urn_of
from knowledge.context import attached_memories
from knowledge.entities.call_subject import CallSubject
from knowledge.graph import anthropic, graphs
from knowledge.insights import queries
from knowledge.review import evidence
from memories import queries as memories
from memories.history import history
from memories.responses import QUOTED, change_response, memory_response
from memories.retrieval.filters import Filters

SCHEME = "commonplace://"
GRAPH = "memory://knowledge-graph"
MIME = "application/json"
MINE = f"{SCHEME}insights/mine"
MAX_COMPLETIONS = 20  # maximum number of suggested values for an argument
MEMORIES_PER_PAGE = 50  # in the list of resources


def resources_of(caller: Caller, tools: Collection[str], after: str = "") -> tuple[list[Resource], str]:
    """Return a page of the list of resources, and the position after which the next page begins, or "".

    The first page has the caller's insights, the knowledge graph and the caller's newest memories; the following pages
    have the older memories. `tools` are the names of the tools that the server offers. Raises Invalid if `after` is not
    such a position.
    """
    links = [] if after else _single_resources(caller, tools)
    if not KINDS["memory"].is_open(caller, tools):
        return links, ""
    rows = page(memories.newest(caller, Filters(owner=caller.email)), after, size=MEMORIES_PER_PAGE)
    links += [
        Resource(uri=f"{SCHEME}memory/{record.pk.hex}", name=record.pk.hex, title=str(record), mime_type=MIME)
        for record in rows.rows
    ]
    return links, rows.after


def _single_resources(caller: Caller, tools: Collection[str]) -> list[Resource]:
    links = []
    if KINDS["insights"].is_open(caller, tools):
        description = "Your proposals for the catalog, and the decisions about them."
        links.append(Resource(uri=MINE, name="insights", title="My insights", description=description, mime_type=MIME))
    if KINDS["graph"].is_open(caller, tools):
        description = "The full knowledge graph with all entities and relations"
        links.append(
            Resource(
                uri=GRAPH, name="knowledge-graph", title="Knowledge Graph", description=description, mime_type=MIME
            )
        )
    return links


def templates_of(caller: Caller, tools: Collection[str]) -> list[ResourceTemplate]:
    return [template for template in TEMPLATES if KINDS[template.name].is_open(caller, tools)]


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
        description="Its catalog entry and memories about it. Takes a URN or a name.",
        mime_type=MIME,
    ),
]


def read(caller: Caller, uri: str, tools: Collection[str]) -> dict[str, Any]:
    """Return the content of a resource.

    Raises NotFound if it does not exist or the caller may not see it. Raises Forbidden if the server does not offer the
    tool that returns the same data, or if the caller may not use this tool.
    """
    kind, key = _kind_of(uri)
    if not kind.is_open(caller, tools):
        raise Forbidden(f"{uri[:200]} requires the tool {kind.tool}, which this connection may not use")
    return kind.read(caller, key)


def text_of(data: dict[str, Any], uri: str) -> str:
    """Return the text of a resource's content, shortened to the size of a tool's answer unless another server's
    format forbids it. A shortened one names the tool that returns the rest.
    """
    kind, _ = _kind_of(uri)
    fitting = data if kind.is_whole else fit(data)
    if fitting is not data and "omitted" in fitting:
        fitting["note"] = f"shortened; the tool {kind.tool} returns the rest"
    return json.dumps(fitting, ensure_ascii=False)


def fingerprint(caller: Caller, uri: str, tools: Collection[str]) -> str:
    """Return a string that changes whenever the resource may have changed, or "" if the caller can't read it."""
    try:
        kind, key = _kind_of(uri)
        return kind.stamp(caller, key) if kind.is_open(caller, tools) else ""
    except NotFound:
        return ""


def list_fingerprint(caller: Caller, tools: Collection[str]) -> str:
    links, _ = resources_of(caller, tools)
    return " ".join(str(link.uri) for link in links)


def _kind_of(uri: str) -> tuple[ResourceKind, str]:
    if uri == GRAPH:
        return KINDS["graph"], ""
    name, _, key = uri.removeprefix(SCHEME).partition("/")
    kind = KINDS.get(name)
    if not uri.startswith(SCHEME) or kind is None:
        raise NotFound(f"there is no resource {uri[:200]!r}")
    return kind, unquote(key)


def _memory(caller: Caller, key: str) -> dict[str, Any]:
    record = memories.get(caller, key)
    changes = [change_response(change) for change in history(caller, record)]
    return {"memory": memory_response(record), "history": changes, "about": QUOTED}


def _entity(caller: Caller, key: str) -> dict[str, Any]:
    urn = urn_of(key)
    knowledge = attached_memories.memories_for_entities(caller, CallSubject([urn]))
    return {
        "entity": evidence.entity_evidence(get_readable_catalog(), urn),
        "memories": [entry.response() for entry in (*knowledge.entries, *knowledge.neighbors)],
        "not_shown": {"stale": knowledge.stale, "waiting_for_review": knowledge.waiting},
        "about": QUOTED,
    }


def _insights(caller: Caller, key: str) -> dict[str, Any]:
    if key != "mine":
        raise NotFound("there is no such list of insights")
    rows = queries.proposed_by(caller).order_by("-record__created_at")[:100]
    return {"insights": [responses.insight_response(insight) for insight in rows], "about": QUOTED}


def _stamp_of_memory(caller: Caller, key: str) -> str:
    return _digest(_memory(caller, key))  # parts of it change with the time and with other rows


def _digest(content: dict[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()


def _stamp_of_entity(caller: Caller, key: str) -> str:
    return queries.stamp_of_entity(caller, urn_of(key))


def _stamp_of_insights(caller: Caller, key: str) -> str:
    return _digest(_insights(caller, key))


def _graph(caller: Caller, key: str) -> dict[str, Any]:
    return dict(anthropic.read_graph(caller).data)


def _stamp_of_graph(caller: Caller, key: str) -> str:
    graph = graphs.graph_of(caller)
    return graph.changed_at.isoformat() if graph else "empty"


@dataclass(frozen=True)
class ResourceKind:
    """A kind of resource.

    `read` and `stamp` take the caller and the key in the URI. They may raise NotFound, as read() in this module does.
    """

    tool: str  # name of the tool that returns the same data; callers who may use it may read the resource
    read: Callable[[Caller, str], dict[str, Any]]
    stamp: Callable[[Caller, str], str]  # see fingerprint()
    command: str = ""  # of the tool, if it has several
    is_whole: bool = False  # in the format of another server, which knows no shortened answer

    def is_open(self, caller: Caller, tools: Collection[str]) -> bool:
        return self.tool in tools and caller.may_use(self.tool, self.command)


KINDS = {
    "memory": ResourceKind("memory_manage", _memory, _stamp_of_memory, "get"),
    "entity": ResourceKind("catalog_entity", _entity, _stamp_of_entity),
    "graph": ResourceKind("read_graph", _graph, _stamp_of_graph, is_whole=True),
    "insights": ResourceKind("capture_insight", _insights, _stamp_of_insights),
}


def completions(caller: Caller, template: str, argument: str, text: str, tools: Collection[str]) -> list[str]:
    """Return values for the argument of a template: URNs of entities, or ids of the caller's memories.

    Raises NotFound for an unknown template, and Invalid for an argument that it does not have.
    """
    offered = {found.uri_template: found.name for found in templates_of(caller, tools)}
    if template not in offered:
        raise NotFound(f"there is no resource template {template[:200]!r}")
    known = "urn" if offered[template] == "entity" else "id"
    if argument != known:
        raise Invalid("is not an argument of this template", field=argument[:60], allowed=known)
    if known == "urn":
        return [quote(row.urn, safe=":(),") for row in entities_like(text)[:MAX_COMPLETIONS]]
    rows = memories.newest(caller, Filters(owner=caller.email))[:500]
    return [pk.hex for pk in rows.values_list("pk", flat=True) if pk.hex.startswith(text)][:MAX_COMPLETIONS]
