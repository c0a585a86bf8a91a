"""Where entities stand in the arguments and answers of upstream tools, as an upstream's declaration says."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from mcp.types import CallToolResult, TextContent

from memory_project.mcp.gateway.registry import ProxiedTool

log = logging.getLogger(__name__)

MAX_NAMES = 40


def declared_in(
    tool: ProxiedTool, arguments: Mapping[str, Any], result: CallToolResult | None = None
) -> list[str] | None:
    """Return the names and URNs at the declared JSONPaths, or None if nothing is declared for the tool.

    Without the result, those in the arguments are returned.
    """
    declared = tool.upstream.entities
    paths = declared.get(tool.upstream_tool, declared.get("*"))
    if paths is None:
        return None
    from jsonpath import JSONPathError, findall  # noqa: PLC0415 - most upstreams declare no paths

    document = {"arguments": dict(arguments), "result": _content(result) if result else None}
    names: list[str] = []
    for path in paths:
        try:
            found = findall(path, document)
        except (JSONPathError, RecursionError):
            log.warning("the upstream %s declares a path that can't be read: %s", tool.upstream.name, path[:100])
            continue
        names += [value for value in found if isinstance(value, str)]
    return list(dict.fromkeys(names))[:MAX_NAMES]


def _content(result: CallToolResult) -> Any:
    """Return the structured content, or else the text, parsed if it is JSON."""
    if result.structured_content is not None:
        return result.structured_content
    text = next((block.text for block in result.content if isinstance(block, TextContent)), "")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
