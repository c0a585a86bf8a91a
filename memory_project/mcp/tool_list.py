"""The tools that a connection gets: those of its toolsets that the caller may use, and those of upstreams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from mcp.types import Tool as OfferedTool

from foundation.database import connections, identity
from foundation.operations.toolsets import toolsets
from foundation.people.caller import Caller
from foundation.tools.declaration import Tool, load_toolset
from memory_project.mcp.gateway import registry, tool_search
from memory_project.mcp.gateway.calls import Gateway
from memory_project.mcp.gateway.registry import ProxiedTool
from memory_project.mcp.tool_schema_cache import advertise, advertised_tools


class ToolList:
    """Says which tools of a server each caller gets. `offered` has the server's own, by name."""

    def __init__(self, offered: Mapping[str, Tool], gateway: Gateway) -> None:
        self.offered = offered
        self.gateway = gateway
        self._advertised: list[OfferedTool] | None = None
        self._narrowed_tools: dict[tuple[str, tuple[str, ...]], Tool] = {}  # by name and choices

    def advertised(self) -> list[OfferedTool]:
        """Return the definitions of all offered tools. The first call looks at every source file."""
        if self._advertised is None:
            self._advertised = advertised_tools(list(self.offered.values()))
        return self._advertised

    def entries(
        self, caller: Caller, definitions: Iterable[dict[str, Any]], with_output_schemas: bool
    ) -> list[dict[str, Any]]:
        """Return the caller's entries of tools/list. `definitions` are those of all offered tools, serialized."""
        own, proxied = self.of(caller)
        entries = [self._entry(entry, own[entry["name"]]) for entry in definitions if entry["name"] in own]
        entries += [_serialized(tool.advertised) for tool in proxied]
        if with_output_schemas:
            return entries
        return [{key: entry[key] for key in entry if key != "outputSchema"} for entry in entries]

    def of(self, caller: Caller) -> tuple[dict[str, Tool], list[ProxiedTool]]:
        """Return the tools that the caller may use, and those of upstreams unless there are too many to list."""
        with connections.session():
            own = self.own(caller)
            proxied = list(self.gateway.tools_for(caller).values())
        if tool_search.is_needed(len(own), len(proxied)):
            return own, []
        return {name: tool for name, tool in own.items() if name not in tool_search.NAMES}, proxied

    def own(self, caller: Caller) -> dict[str, Tool]:
        """Return the tools that the caller may use, by name, each with the choices that the caller may use."""
        tools = [tool for tool in self.offered.values() if caller.may_use(tool.name)]
        with connections.session(), identity.acting_as(caller):
            tools = [tool for tool in tools if tool.is_listed_for(caller)]
        return {tool.name: narrowed for tool in tools if (narrowed := self._narrowed(tool, caller))}

    def _narrowed(self, tool: Tool, caller: Caller) -> Tool | None:
        if not tool.selector:
            return tool
        choices = tuple(tool.choices_for(caller))
        if len(choices) == len(tool.choices):
            return tool
        return self._narrowed_tools.setdefault((tool.name, choices), tool.only(choices)) if choices else None

    def _entry(self, definition: dict[str, Any], tool: Tool) -> dict[str, Any]:
        return definition if tool is self.offered[tool.name] else _serialized(advertise(tool))


def _serialized(definition: OfferedTool) -> dict[str, Any]:
    return definition.model_dump(mode="json", by_alias=True, exclude_none=True)


def enabled_tools(names: Sequence[str], *, read_only: bool = False) -> list[Tool]:
    """Return the tools of these toolsets ("all" means every one), or what these toolsets offer for reading.

    Raises ImproperlyConfigured for an unknown toolset, or if only `analysis` is named while ANALYSIS_ENABLED is false.
    """
    declared = toolsets()
    upstreams = upstream_names() if set(names) - {*declared, "all"} else ()
    if unknown := sorted(set(names) - {*declared, *upstreams, "all"}):
        allowed = ", ".join([*declared, *upstreams, "all"])
        raise ImproperlyConfigured(f"unknown toolset {unknown[0]!r}; allowed: {allowed}")
    enabled = [name for name in declared if name in names or "all" in names]
    if not settings.ANALYSIS_ENABLED:
        enabled = [name for name in enabled if name != "analysis"]
    if names and not enabled and not upstreams:
        raise ImproperlyConfigured("the toolset 'analysis' offers no tools while ANALYSIS_ENABLED is false")
    offered = [
        tool
        for name in (declared if read_only else enabled)  # a toolset that is not needed is not imported
        for tool in load_toolset(name)
        if name in enabled or not {*enabled}.isdisjoint(tool.reads_for)
    ]
    return list({tool.name: tool for tool in offered}.values())  # two toolsets may offer the same tool


def upstream_names() -> list[str]:
    with connections.session():
        return sorted(registry.refreshed().upstreams)
