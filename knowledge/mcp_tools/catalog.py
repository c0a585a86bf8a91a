"""catalog_search and catalog_entity: looking things up."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from knowledge import catalog as catalogs
from knowledge import evidence, queries, shapes
from knowledge.catalog import lineage
from knowledge.catalog.facts import short_name
from knowledge.catalog.local import LocalCatalog
from knowledge.catalog.mirror import TYPES
from knowledge.shapes import InsightShape
from memories.access import Caller
from memories.contract.errors import Invalid, NotFound, check_choice
from memories.contract.toolset import tool
from memories.shapes import QUOTED
from memories.validation import check_page, clean_text, clean_urn

COLUMNS_MAX = 200


class CatalogShape(TypedDict, total=False):
    entities: list[dict[str, Any]]
    count: int
    catalog: str


class LineageShape(TypedDict, total=False):
    urn: str
    nodes: list[dict[str, Any]]
    count: int
    more: bool
    columns: list[dict[str, Any]]


class EntityShape(TypedDict, total=False):
    entity: dict[str, Any]
    insights: list[InsightShape]
    about: str


@tool(toolset="knowledge", title="Search the catalog", read_only=True, idempotent=True, open_world=True)
def catalog_search(
    caller: Caller,
    query: Annotated[
        str, Field(description="Words of names, descriptions or columns.", json_schema_extra={"maxLength": 500})
    ] = "",
    types: Annotated[list[str] | None, Field(description="Entity types, for example dataset, glossaryTerm.")] = None,
    limit: Annotated[int, Field(description="1 to 50", json_schema_extra={"maximum": 50})] = 10,
) -> CatalogShape:
    """Find entities of the data catalog: data sets, glossary terms, domains, documents."""
    limit = check_page(limit, 0, 50)
    catalog = catalogs.readable()
    for kind in types or []:
        check_choice("types", kind, sorted({*TYPES, *LocalCatalog().types()}))
    found = catalog.search(clean_text("query", query, 0, 500), types=types or [], limit=limit)
    return {"entities": [shapes.summary_shape(one) for one in found], "count": len(found), "catalog": catalog.name}


@tool(toolset="knowledge", title="Look at a catalog entity", read_only=True, idempotent=True, open_world=True)
def catalog_entity(
    caller: Caller,
    urn: Annotated[str, Field(description="The entity's DataHub URN.")] = "",
    columns_from: Annotated[int, Field(description="Skip so many columns.", json_schema_extra={"minimum": 0})] = 0,
    columns_limit: Annotated[int, Field(description="1 to 200 columns.", json_schema_extra={"maximum": 200})] = 50,
) -> EntityShape:
    """What the catalog says of an entity now: description, columns, owners, tags, neighbours, and insights about it."""
    urn = clean_urn(urn, "urn")
    columns_limit = check_page(columns_limit, columns_from, COLUMNS_MAX)
    catalog = catalogs.readable()
    entity = evidence.of_entity(catalog, urn, columns_from=columns_from, columns_most=columns_limit)
    if note := catalogs.copy_note(catalog):
        entity |= {"degraded": True, "note": note}
    if not entity["exists"]:
        raise NotFound(f"{urn} is not in the catalog", field="urn")
    if products := evidence.products_of(urn):
        entity["products"] = products
    if names := evidence.names_behind(catalog, entity):
        entity["names"] = names
    left = entity["columns_total"] - columns_from - len(entity["columns"])
    if left > 0:
        entity["columns_left"] = left
    rows = queries.about(caller, urn)[:20]
    return {"entity": entity, "insights": [shapes.insight_shape(one) for one in rows], "about": QUOTED}


@tool(toolset="knowledge", title="Follow the lineage", read_only=True, idempotent=True, open_world=True)
def catalog_lineage(
    caller: Caller,
    urn: Annotated[str, Field(description="The entity's DataHub URN.")] = "",
    direction: Annotated[str, Field(description="upstream, downstream or both")] = "both",
    hops: Annotated[int, Field(description="1 to 5", json_schema_extra={"maximum": lineage.HOPS_MAX})] = 1,
    limit: Annotated[int, Field(description="1 to 200", json_schema_extra={"maximum": lineage.NODES_MAX})] = 50,
) -> LineageShape:
    """What an entity is made from and what is made from it, nearest first, with columns where they are known."""
    urn = clean_urn(urn, "urn")
    check_choice("direction", direction, [*lineage.DIRECTIONS, "both"])
    if not 1 <= hops <= lineage.HOPS_MAX:
        raise Invalid(f"is {hops}", field="hops", allowed=f"1 to {lineage.HOPS_MAX}")
    limit = check_page(limit, 0, lineage.NODES_MAX)
    if not catalogs.readable().existing([urn]):
        raise NotFound(f"{urn} is not in the catalog", field="urn")
    nodes = lineage.around(urn, lineage.DIRECTIONS if direction == "both" else [direction], hops, limit + 1)
    shown = [
        {"urn": node.urn, "name": short_name(node.urn), "direction": node.direction, "distance": node.distance}
        for node in nodes[:limit]
    ]
    return {
        "urn": urn,
        "nodes": shown,
        "count": len(shown),
        "more": len(nodes) > limit,
        "columns": lineage.columns(urn),
    }
