"""catalog_search and catalog_entity: looking things up."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from knowledge import catalog as catalogs
from knowledge import evidence, queries, shapes
from knowledge.shapes import InsightShape
from memories.access import Caller
from memories.errors import NotFound
from memories.toolset import tool
from memories.validation import check_page, clean_urn


class CatalogShape(TypedDict, total=False):
    entities: list[dict[str, Any]]
    count: int
    catalog: str


class EntityShape(TypedDict, total=False):
    entity: dict[str, Any]
    insights: list[InsightShape]


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
    catalog = catalogs.current()
    found = catalog.search(query[:500], types=types or [], limit=limit)
    return {"entities": [shapes.summary_shape(one) for one in found], "count": len(found), "catalog": catalog.name}


@tool(toolset="knowledge", title="Look at a catalog entity", read_only=True, idempotent=True, open_world=True)
def catalog_entity(
    caller: Caller, urn: Annotated[str, Field(description="The entity's DataHub URN.")] = ""
) -> EntityShape:
    """What the catalog says of an entity now: description, columns, owners, tags, neighbours, and insights about it."""
    urn = clean_urn(urn, "urn")
    entity = evidence.of_entity(catalogs.current(), urn)
    if not entity["exists"]:
        raise NotFound(f"{urn} is not in the catalog", field="urn")
    rows = queries.about(caller, urn)[:20]
    return {"entity": entity, "insights": [shapes.insight_shape(one) for one in rows]}
