"""The knowledge graph."""

from __future__ import annotations

from typing import Any

from foundation.tools.declaration import Tool
from knowledge.graph import mcp_tools as tools
from memory_project.rest.endpoints import of_tool, route

TAG = "graph"


def _read(address: str, tool: Tool) -> Any:
    return route(TAG, f"graph/{address}", get=of_tool(tool, "", tool.name))


def _call(address: str, tool: Tool, **options: Any) -> Any:
    return route(TAG, f"graph/{address}", post=of_tool(tool, "", tool.name, **options))


urlpatterns = [
    _read("", tools.read_graph),
    _read("nodes/search/", tools.search_nodes),
    _read("nodes/similar/", tools.search_semantic),
    _read("nodes/", tools.open_nodes),
    _call("entities/", tools.create_entities),
    _call("entities/delete/", tools.delete_entities),
    _call("relations/", tools.create_relations),
    _call("relations/delete/", tools.delete_relations),
    _call("relations/end/", tools.end_relation),
    _call("observations/", tools.add_observations),
    _call("observations/delete/", tools.delete_observations),
    _call("import/", tools.migrate, hidden=("source_path",)),
    _read("splits/", tools.find_split_candidates),
    _read("splits/analysis/", tools.analyze_entity_split),
    _read("splits/proposal/", tools.propose_entity_split),
    _call("splits/execute/", tools.execute_entity_split),
    _read("duplicates/", tools.find_duplicate_observations),
    _read("report/", tools.consolidation_report),
    route(
        TAG,
        "graph/reflections/",
        get=of_tool(tools.search_reflections, "", "search_reflections"),
        post=of_tool(tools.add_reflection, "", "add_reflection"),
    ),
]
