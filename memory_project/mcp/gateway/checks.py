"""System checks of the declared upstreams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Warning, register

from foundation.operations.errors import DomainError
from memory_project.mcp.gateway import declaration


@register()
def check_upstreams(**extra: Any) -> list[CheckMessage]:
    """Check the file of declarations. Those of the admin are checked when they are saved."""
    if not settings.MCP_UPSTREAMS:
        return []
    try:
        upstreams = declaration.from_file(Path(settings.MCP_UPSTREAMS))
    except DomainError as error:
        hint = "Correct the file: none of its servers is used."
        return [Warning(f"MCP_UPSTREAMS can't be used: {error.message}.", hint=hint, id="commonplace.W004")]
    return [
        Warning(
            f"The upstream {name!r} needs the environment variable {variable}, which is not set.",
            hint="Set it, or take the upstream out of MCP_UPSTREAMS.",
            id="commonplace.W005",
        )
        for name, upstream in upstreams.items()
        for variable in upstream.missing_variables()
    ]
