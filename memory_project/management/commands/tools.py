from __future__ import annotations

import json
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from foundation.tools.declaration import Tool
from memory_project.mcp.reference import reference
from memory_project.mcp.tool_list import enabled_tools


class Command(BaseCommand):
    help = "List the MCP tools with their size in a model's context. The unit is characters."

    def add_arguments(self, parser: CommandParser) -> None:
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--reference", action="store_true", help="print the reference for docs/mcp.md")
        form.add_argument("--json", action="store_true", help="print a JSON list of name, toolset and characters")

    def handle(self, *, reference: bool, json: bool, **options: Any) -> None:
        tools = enabled_tools(["all"])
        if json:
            return self.stdout.write(as_json(tools))
        self.stdout.write(render_reference(tools) if reference else "\n".join(costs(tools)))


def render_reference(tools: list[Tool]) -> str:
    return reference(tools).rstrip()


def as_json(tools: list[Tool]) -> str:
    entries = [{"name": tool.name, "toolset": tool.toolset, "characters": cost(tool)} for tool in tools]
    return json.dumps(entries, indent=1)


def cost(tool: Tool) -> int:
    """Return the number of characters of a tool in a request to a model: name, description and input schema as JSON."""
    entry = {"name": tool.name, "description": tool.listed_description, "input_schema": tool.listed_schema}
    return len(json.dumps(entry, ensure_ascii=False, separators=(",", ":")))


def costs(tools: list[Tool]) -> list[str]:
    """Return one line per tool and toolset with its number of characters, and the total."""
    by_toolset: Counter[str] = Counter()
    lines = []
    for tool in tools:
        by_toolset[tool.toolset] += cost(tool)
        lines.append(f"{tool.name:24} {cost(tool):7,}")
    lines += [f"{'toolset ' + name:24} {total:7,}" for name, total in by_toolset.items()]
    return [*lines, f"{'all':24} {by_toolset.total():7,}"]
