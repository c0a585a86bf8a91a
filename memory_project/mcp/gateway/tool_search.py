"""Finding tools of upstreams when there are too many to list: find_tools searches them, use_tool calls one.

Every listed tool takes up the model's context. Above MCP_TOOLS_LISTED tools, those of upstreams are left out of the
list, and these two are in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Any

from django.conf import settings
from django.contrib.postgres.search import SearchQuery, SearchRank, SearchVector
from django.db.models import Value
from pydantic import Field
from typing_extensions import TypedDict

from foundation.database import identity
from foundation.operations.errors import Invalid
from foundation.operations.operation import Operation
from foundation.people.caller import Caller
from foundation.tools.declaration import Hints, tool
from memory_project.mcp.gateway import registry
from memory_project.mcp.gateway.models import PinnedTool

FIND_TOOLS, USE_TOOL = "find_tools", "use_tool"
NAMES = (FIND_TOOLS, USE_TOOL)
MAX_WORDS = 20


def is_needed(own: int, proxied: int) -> bool:
    """Return whether the tools of upstreams have to be searched, because all together are too many to list."""
    return proxied > 0 and own - len(NAMES) + proxied > settings.MCP_TOOLS_LISTED


def resolve_call(arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the tool and the arguments of a call of use_tool. Such a call counts as one of that tool."""
    name = arguments.get("name")
    given = arguments.get("arguments") or {}
    if not isinstance(name, str) or not isinstance(given, dict) or name in NAMES:
        return USE_TOOL, dict(arguments)
    return name, given


class FindTools(Operation):
    """Find tools by what they do."""

    query: Annotated[str, Field(min_length=1, max_length=500, description="words for what the tool should do")]
    limit: Annotated[int, Field(ge=1, le=20, description="number of tools")] = 5


class UseTool(Operation):
    """Call a tool."""

    name: Annotated[str, Field(min_length=1, max_length=64, description="the tool's name")]
    arguments: Annotated[dict[str, Any] | None, Field(description="its arguments")] = None


class FoundTool(TypedDict):
    name: str
    title: str
    description: str
    inputSchema: dict[str, Any]
    readOnly: bool


class FoundTools(TypedDict):
    tools: list[FoundTool]
    of: int  # number of tools that were searched
    hint: str


@tool(
    toolset=registry.TOOLSET,
    title="Find tools",
    hints=Hints(read_only=True, idempotent=True),
)
def find_tools(caller: Caller, op: FindTools) -> FoundTools:
    """Search the tools of connected systems, which are too many to list. Call one with use_tool."""
    tools = registry.tools_of(caller)
    words = op.query.split()[:MAX_WORDS]
    query = reduce(or_, [SearchQuery(word, config="english") for word in words])
    # the underscores of names separate words
    vector = SearchVector("tool", weight="A", config="english") + SearchVector(
        "approved__description", "approved__title", weight="B", config="english"
    )
    with identity.service("gateway"):
        rows = (
            PinnedTool.objects.filter(pk__in=[tool.pin_id for tool in tools.values()])
            .annotate(rank=SearchRank(vector, query, normalization=Value(1)))
            .filter(rank__gt=0)
            .order_by("-rank", "pk")[: op.limit]
        )
        ranked = [row.pk for row in rows]
    by_pin = {tool.pin_id: tool for tool in tools.values()}
    found = [by_pin[pk] for pk in ranked]
    return {
        "tools": [
            {
                "name": tool.name,
                "title": tool.title,
                "description": tool.description,
                "inputSchema": tool.pinned.get("inputSchema", {}),
                "readOnly": tool.hints.read_only,
            }
            for tool in found
        ],
        "of": len(tools),
        "hint": "" if found else "nothing matches: try other words, such as the name of the system",
    }


@tool(toolset=registry.TOOLSET, title="Use a tool", hints=Hints(destructive=True, open_world=True))
def use_tool(caller: Caller, op: UseTool) -> FoundTools:
    """Call a tool that find_tools has found, with its arguments."""
    # the server carries out the call of the tool that is meant, so this one is reached with a wrong name only
    raise Invalid(f"{op.name!r} is no tool of find_tools", field="name", allowed="a name that find_tools returned")
