"""The tools catalog_search, catalog_entity and catalog_lineage, which read the data catalog."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

from foundation.operations.errors import NotFound, check_choice
from foundation.people.caller import Caller
from foundation.tools.declaration import Hints, ToolResponse, tool
from knowledge import responses
from knowledge.catalog import lineage
from knowledge.catalog.current import copy_note, get_readable_catalog
from knowledge.catalog.embedded import LocalCatalog
from knowledge.catalog.entity_view import short_name
from knowledge.catalog.mirror import TYPES
from knowledge.catalog.search import search
from knowledge.context.attachable import attachable
from knowledge.context.caveats import caveats_for
from knowledge.insights import queries
from knowledge.mcp_tools.entity_text import entity_text
from knowledge.operations import FollowLineage, SearchCatalog, ShowEntity
from knowledge.responses import InsightResponse
from knowledge.review import evidence
from memories.responses import QUOTED

MAX_CAVEATS = 5  # maximum number of caveats from upstream that a response lists
READ_ONLY = Hints(read_only=True, idempotent=True, open_world=True)


class CatalogResponse(TypedDict):
    entities: list[dict[str, Any]]
    count: int
    catalog: str
    degraded: NotRequired[bool]
    note: NotRequired[str]


class LineageResponse(TypedDict):
    urn: str
    nodes: list[dict[str, Any]]
    count: int
    more: bool
    columns: list[dict[str, Any]]


class CaveatResponse(TypedDict):
    """A memory about something upstream, which holds here, too, as far as the catalog knows. `why` has the path."""

    id: str
    content: str
    created_by: str
    why: str


class EntityResponse(TypedDict):
    entity: dict[str, Any]
    insights: list[InsightResponse]
    caveats: NotRequired[list[CaveatResponse]]
    about: NotRequired[str]


@tool(toolset="knowledge", title="Search the catalog", hints=READ_ONLY, reads_for=["memory"])
def catalog_search(caller: Caller, operation: SearchCatalog) -> CatalogResponse:
    """Find data sets, glossary terms, domains and documents in the data catalog. Returns their names and URNs."""
    catalog = get_readable_catalog()
    for kind in operation.types:
        check_choice("types", kind, sorted({*TYPES, *LocalCatalog().types()}))
    found = search(catalog, operation.query, types=operation.types, limit=operation.limit)
    response: CatalogResponse = {
        "entities": [responses.summary_response(entity) for entity in found.entities],
        "count": len(found.entities),
        "catalog": catalog.name,
    }
    if note := copy_note(catalog) or found.note:
        response |= {"degraded": True, "note": note}
    return response


@tool(toolset="knowledge", title="Look at a catalog entity", hints=READ_ONLY, reads_for=["memory"])
def catalog_entity(caller: Caller, operation: ShowEntity) -> ToolResponse[EntityResponse]:
    """Show an entity of the data catalog: description, columns, owners, tags, neighbors, and insights about it."""
    catalog = get_readable_catalog()
    entity = evidence.entity_evidence(
        catalog, operation.urn, columns_from=operation.columns_from, columns_most=operation.columns_limit
    )
    if note := copy_note(catalog):
        entity |= {"degraded": True, "note": note}
    if not entity["exists"]:
        raise NotFound(f"{operation.urn} is not in the catalog", field="urn")
    if products := evidence.products_of(operation.urn):
        entity["products"] = products
    if names := evidence.names_behind(catalog, entity):
        entity["names"] = names
    columns_left = entity["columns_total"] - operation.columns_from - len(entity["columns"])
    if columns_left > 0:
        entity["columns_left"] = columns_left
    rows = queries.about(caller, operation.urn)[:20]
    response: EntityResponse = {"entity": entity, "insights": [responses.insight_response(row) for row in rows]}
    if upstream := caveats_for([operation.urn], lambda sources: attachable(caller, sources))[:MAX_CAVEATS]:
        response["caveats"] = [
            {
                "id": caveat.record.pk.hex,
                "content": caveat.record.content,
                "created_by": caveat.record.created_by,
                "why": caveat.path.reason,
            }
            for caveat in upstream
        ]
    response["about"] = QUOTED
    text = entity_text(
        response,
        columns_from=operation.columns_from,
        columns_shown=operation.columns_limit if "columns_limit" in operation.model_fields_set else None,
    )
    return ToolResponse(response, text=text)


@tool(toolset="knowledge", title="Follow the lineage", hints=READ_ONLY, reads_for=["memory"])
def catalog_lineage(caller: Caller, operation: FollowLineage) -> LineageResponse:
    """Show what an entity is made from (upstream) and what is made from it (downstream), nearest first."""
    if not get_readable_catalog().existing([operation.urn]):
        raise NotFound(f"{operation.urn} is not in the catalog", field="urn")
    directions = lineage.DIRECTIONS if operation.direction == "both" else [operation.direction]
    nodes = lineage.nodes_around(operation.urn, directions, operation.hops, operation.limit + 1)
    page = [
        {"urn": node.urn, "name": short_name(node.urn), "direction": node.direction, "distance": node.distance}
        for node in nodes[: operation.limit]
    ]
    return {
        "urn": operation.urn,
        "nodes": page,
        "count": len(page),
        "more": len(nodes) > operation.limit,
        "columns": lineage.columns(operation.urn),
    }
