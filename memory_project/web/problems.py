"""Problem details (RFC 9457): the JSON of every error response below /api/."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from memory_project.operating.observability import request_context

MEDIA_TYPE = "application/problem+json"


def problem(status: int, detail: str, code: str, members: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the problem details. `code` is that of the MCP tools' errors; `members` are further members."""
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    found_by = request_context.reference()
    return {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
        "code": code,
        **({"trace_id": found_by} if found_by else {}),
        **(members or {}),
    }
