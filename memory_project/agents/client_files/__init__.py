"""Configuration of MCP clients: where each one keeps its servers, and edits that touch our entry only."""

from __future__ import annotations
