"""The browsable API: answers of the REST API as pages, for people who are signed in with a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.urls import Resolver404, resolve, reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from rest_framework.renderers import BrowsableAPIRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from memory_project.rest.document import methods_of, resolved

# A line of escaped JSON that names an item of a list. Texts can't contain one, because JSON escapes their line breaks.
ITEM_ID = re.compile(r"^( {12}&quot;id&quot;: (?:&quot;)?)([0-9A-Za-z-]+)((?:&quot;)?,?)$", re.MULTILINE)
ADDRESS = re.compile(r"^( +&quot;\w+&quot;: &quot;)(http[^&<]*)(&quot;,?)$", re.MULTILINE)


@dataclass(frozen=True)
class RequestForm:
    """Fields of a request with this method, according to the OpenAPI document."""

    method: str
    summary: str
    query: list[dict[str, Any]]
    headers: list[dict[str, Any]]
    body: str | None  # JSON with the required fields
    fields: dict[str, Any]


class PageRenderer(BrowsableAPIRenderer):
    """Renders pages from the OpenAPI document, since the endpoints have no serializers to make forms of."""

    template = "rest/browse.html"

    def get_context(
        self, data: Any, accepted_media_type: str | None, renderer_context: Mapping[str, Any]
    ) -> dict[str, Any]:
        view, request, response = (renderer_context[name] for name in ("view", "request", "response"))
        renderer = self.get_default_renderer(view)
        assert renderer is not None  # `renderer_classes` has one for JSON
        content = self.get_content(renderer, data, "application/json", dict(renderer_context))
        described = methods_of(request)
        headers = {**dict(response.items()), "Content-Type": response.content_type or renderer.media_type}
        shown = "delete" if response.status_code == 204 else request.method.lower()
        return {
            "summary": described.get(shown, {}).get("summary", ""),
            "is_anonymous": request.user is None,
            "content": _linked(content, request),
            "next": data.get("next") if isinstance(data, Mapping) else None,
            "status": f"{response.status_code} {response.status_text}",
            "response_headers": sorted(headers.items()),
            "forms": [_form(method, operation, request, response) for method, operation in described.items()],
            "path": request.path,
            "address": request.get_full_path(),
            "method": request.method,
        }

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> str:
        page: str = super().render(data, accepted_media_type, renderer_context)
        renderer_context["response"].headers["Content-Type"] = "text/html; charset=utf-8"  # also of problems
        return page


def _form(method: str, operation: Mapping[str, Any], request: Request, response: Response) -> RequestForm:
    parameters = [
        {**part, "given": _given(part, method, request, response)}
        for part in operation.get("parameters", ())
        if part["in"] != "path"
    ]
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    schema = resolved(content["schema"]) if content else {}
    fields = schema.get("properties", {})
    required = {name: _blank(fields[name]) for name in schema.get("required", ())}
    return RequestForm(
        method=method,
        summary=operation["summary"],
        query=[part for part in parameters if part["in"] == "query"],
        headers=[part for part in parameters if part["in"] == "header" and part["name"] != "If-None-Match"],
        body=json.dumps(required, indent=2) if content else None,
        fields=fields,
    )


def _given(part: Mapping[str, Any], method: str, request: Request, response: Response) -> str:
    if part["name"] == "If-Match":
        return str(response.headers.get("ETag", ""))
    is_query = part["in"] == "query" and method == "get" and request.method == "GET"
    return ",".join(request.query_params.getlist(part["name"])) if is_query else ""


def _blank(schema: Mapping[str, Any]) -> Any:
    kinds = schema.get("type", "string")
    blanks: dict[str, Any] = {"array": [], "object": {}, "integer": 0, "number": 0, "boolean": False}
    return blanks.get(kinds if isinstance(kinds, str) else kinds[0], (schema.get("enum") or [""])[0])


def _linked(content: str, request: Request) -> SafeString:
    """Return escaped JSON in which addresses of the API are links, and the ids of a list's items lead to the items."""
    start = settings.COMMONPLACE_URL + reverse("api-start")

    def link(match: re.Match[str]) -> str:
        before, name, after = match.groups()
        address = f"{request.path}{name}/"
        try:
            resolve(address)
        except Resolver404:
            return match[0]
        return f'{before}<a href="{address}">{name}</a>{after}'

    def link_address(match: re.Match[str]) -> str:
        before, address, after = match.groups()
        return f'{before}<a href="{address}">{address}</a>{after}' if address.startswith(start) else match[0]

    return mark_safe(ADDRESS.sub(link_address, ITEM_ID.sub(link, str(escape(content)))))
