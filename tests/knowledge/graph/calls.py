"""Calls of graph tools, and access to parts of their responses."""

from __future__ import annotations

from typing import Any

from foundation.people.caller import Caller
from knowledge.graph.mcp_tools import TOOLS

TOOL = {tool.name: tool for tool in TOOLS}
SPACE = {
    "name": "CachorroSpace",
    "entityType": "Project",
    "observations": ["Stack: Astro 6.x + Starlight 0.38.x", "Deployed on Vercel at cachorro.space"],
}


def call(caller: Caller, tool: str, **arguments: Any) -> Any:
    return TOOL[tool](caller, **arguments)


def create_space(caller: Caller) -> None:
    call(caller, "create_entities", entities=[SPACE, {"name": "Astro", "entityType": "Framework"}])


def plain(entity: dict[str, Any]) -> dict[str, Any]:
    return {key: entity[key] for key in ("name", "entityType", "observations")}


def names(response: dict[str, Any]) -> list[str]:
    return [entity["name"] for entity in response["entities"]]
