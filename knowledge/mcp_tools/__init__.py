"""MCP tools of the knowledge toolset."""

from __future__ import annotations

from knowledge.mcp_tools.capture import capture_insight
from knowledge.mcp_tools.catalog import catalog_entity, catalog_lineage, catalog_search
from knowledge.mcp_tools.curate import apply_knowledge

TOOLS = [capture_insight, catalog_search, catalog_entity, catalog_lineage, apply_knowledge]
