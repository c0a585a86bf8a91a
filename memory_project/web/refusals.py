"""Responses to requests that are refused before they reach Django or the MCP server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast
from urllib.parse import quote

from django.conf import settings
from django.template.loader import render_to_string
from django.utils.translation import gettext, gettext_lazy
from starlette.datastructures import Headers
from starlette.types import Scope, Send

from memory_project.web.bearer import bearer
from memory_project.web.mcp_paths import ASKED_KEY
from memory_project.web.problems import MEDIA_TYPE, problem

TITLES = {
    408: gettext_lazy("Request too slow"), 413: gettext_lazy("Request too large"),
    429: gettext_lazy("Too many requests"), 500: gettext_lazy("Something went wrong"),
    503: gettext_lazy("Temporarily unavailable"),
}  # fmt: skip
TOO_MANY = -32000  # JSON-RPC: the first code that servers may define themselves


async def refuse(
    scope: Scope,
    send: Send,
    status: int,
    message: str,
    *,
    code: str = "limit",
    headers: Mapping[str, str] | None = None,
) -> None:
    """Respond with JSON to API clients, with a JSON-RPC error to MCP clients if they should retry, or with a page."""
    fields = {"cache-control": "no-store", **(headers or {})}
    if status == 429 and is_mcp(scope["path"]):  # SDKs show the message of a JSON-RPC error to the agent
        error = {"code": TOO_MANY, "message": message, "data": {"code": code}}
        fields["content-type"] = "application/json"
        text = json.dumps({"jsonrpc": "2.0", "id": None, "error": error})
    elif scope["path"].startswith("/api/"):
        fields["content-type"] = MEDIA_TYPE
        text = json.dumps(problem(status, message, code))
    elif is_for_programs(scope["path"]):
        fields["content-type"] = "application/json"
        text = json.dumps({"error": message, "code": code})
    else:
        page = {"title": TITLES.get(status, gettext("This is not possible")), "message": message}
        fields["content-type"] = "text/html; charset=utf-8"
        text = render_to_string("fault.html", page)
    body = text.encode()
    fields["content-length"] = str(len(body))
    encoded = [(name.lower().encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


def challenge(scope: Scope) -> str:
    """Return the WWW-Authenticate header of a 401. For /mcp it says where the metadata for OAuth are (RFC 9728)."""
    parts = []
    if is_mcp(scope["path"]) and settings.OAUTH_ENABLED:
        base = settings.COMMONPLACE_URL.rstrip("/")
        asked = quote(scope.get(ASKED_KEY, scope["path"]).rstrip("/"), safe="/,")
        parts.append(f'resource_metadata="{base}/.well-known/oauth-protected-resource{asked}"')
        scopes = cast(dict[str, str], settings.OAUTH2_PROVIDER["SCOPES"])
        parts.append(f'scope="{" ".join(scopes)}"')
    if bearer(Headers(scope=scope).get("authorization", "")):
        parts.append('error="invalid_token"')
    return " ".join(["Bearer", ", ".join(parts)]).strip()


def is_mcp(path: str) -> bool:
    return path == "/mcp" or path.startswith("/mcp/")


def is_for_programs(path: str) -> bool:
    return is_mcp(path) or path.startswith("/api/")
