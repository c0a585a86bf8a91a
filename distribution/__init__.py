"""What a release consists of beside wheel and sdist: an entry for the MCP Registry and a bundle for MCP hosts."""

from __future__ import annotations
