"""The data catalog, what people know about its entities, and the warehouses."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from analysis.mcp_tools import query_sql
from foundation.operations.fields import EntityUrn
from foundation.operations.operation import Operation
from foundation.people.caller import Caller
from knowledge.context.attached_memories import memories_for_entities, within_bounds
from knowledge.entities.call_subject import CallSubject
from knowledge.mcp_tools.catalog import catalog_entity, catalog_lineage, catalog_search
from memories.responses import QUOTED
from memory_project.rest.endpoints import Endpoint, of_tool, route

TAG = "catalog"
MAX_URNS = 50


class ContextFor(Operation):
    """What colleagues and agents know about entities"""

    urn: Annotated[list[EntityUrn], Field(min_length=1, max_length=MAX_URNS)] = Field(
        description="The entities, by URN or name."
    )
    question: Annotated[str, Field(max_length=1_000)] = Field("", description="What you want to know about them.")


class ContextMemory(TypedDict):
    id: str
    content: str
    dimension: str
    category: str
    confidence: str
    created_by: str
    edited_by: NotRequired[str]
    created_at: str
    why: str
    scope: NotRequired[str]


class ContextResponse(TypedDict):
    """`more` has memories that did not fit. The three counts are of memories that are left out."""

    memories: list[ContextMemory]
    more: list[dict[str, str]]
    stale: int
    waiting_for_review: int
    not_valid_now: int
    about: str


def _context(caller: Caller, operation: ContextFor) -> ContextResponse:
    subject = CallSubject(requested=list(dict.fromkeys(operation.urn)), question=operation.question)
    knowledge = memories_for_entities(caller, subject)
    memories: Any
    memories, more = within_bounds([*knowledge.entries, *knowledge.neighbors])
    return {
        "memories": memories,
        "more": more,
        "stale": knowledge.stale,
        "waiting_for_review": knowledge.waiting,
        "not_valid_now": knowledge.not_valid,
        "about": QUOTED,
    }


urlpatterns = [
    route(TAG, "context/", get=Endpoint("context_for", _context, "memory_recall")),
    route(TAG, "catalog/search/", get=of_tool(catalog_search, "", "search_catalog")),
    route(TAG, "catalog/entity/", get=of_tool(catalog_entity, "", "show_entity")),
    route(TAG, "catalog/lineage/", get=of_tool(catalog_lineage, "", "follow_lineage")),
    route("queries", "queries/", post=of_tool(query_sql, "", "query_sql")),
]
