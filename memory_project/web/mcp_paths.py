"""Paths of the MCP endpoint over HTTP. Clients' configurations and the distribution name them, too, without Django."""

from __future__ import annotations

PATH = "/mcp"
CHOOSING = f"{PATH}/x/"
READ_ONLY = "readonly"
ASKED_KEY = "commonplace.asked"  # in the ASGI scope: the path that the client asked for
