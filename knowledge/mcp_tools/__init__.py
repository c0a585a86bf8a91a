"""The knowledge toolset over MCP: capture, curate, apply, roll back, and the catalog to look things up in."""

from __future__ import annotations

from knowledge.mcp_tools import capture, catalog, curate

__all__ = ["capture", "catalog", "curate"]
