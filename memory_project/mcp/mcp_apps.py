"""MCP Apps (`io.modelcontextprotocol/ui`): views that hosts show for the results of some tools.

A view is one HTML document without data. The host passes it the result of the tool, and forwards the calls that it
makes, so that they have the identity, the permissions and the audit of the connection. Only clients that declare the
extension are told about views.

A tool can name only one view. That of apply_knowledge therefore shows both the review queue and changesets.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import staticfiles_storage
from django.template.loader import render_to_string
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID, client_supports_apps
from mcp.types import Resource
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foundation.operations.errors import Forbidden, NotFound
from foundation.people.caller import Caller
from foundation.tools.declaration import Tool
from memory_project import __version__

SCHEME = "ui://"
SESSION_HEADER = "mcp-session-id"
SESSION_PREFIX = "apps-"  # starts the session ids of clients that declared the extension
STYLES = ("css/tokens.css", "css/portal.css", "apps/view.css")
# No domains, so that a view can load nothing and connect to nothing. The host adds its own restrictions.
META = {"ui": {"csp": {"connectDomains": [], "resourceDomains": []}, "prefersBorder": True}}


@dataclass(frozen=True)
class AppView:
    """A document for the results of `tool`. Callers who may use the tool may read it."""

    tool: str
    name: str
    title: str
    description: str
    scripts: tuple[str, ...]

    @property
    def uri(self) -> str:
        return f"{SCHEME}commonplace/{self.name}"

    def is_open(self, caller: Caller, tools: Mapping[str, Tool]) -> bool:
        tool = tools.get(self.tool)
        return tool is not None and caller.may_use(self.tool) and tool.is_listed_for(caller)


VIEWS = [
    AppView(
        "apply_knowledge",
        "review",
        "Review and changesets",
        "Waiting insights with evidence, and changesets before and after.",
        ("apps/bridge.js", "apps/changeset.js", "apps/review.js"),
    ),
    AppView(
        "memory_recall",
        "recall",
        "Recalled memories",
        "The memories that a recall found.",
        ("apps/bridge.js", "apps/recall.js"),
    ),
]
VIEW_OF_TOOL = {view.tool: view for view in VIEWS}


def is_supported(context: Any) -> bool:
    """Return whether the client of this request declared the extension.

    Since protocol revision 2026-07-28 each request declares it, and on stdio the session remembers it. Over HTTP, an
    earlier client declares it once, and from then on sends the session id that RememberExtension issued.
    """
    if client_supports_apps(context):
        return True
    request = context.request
    headers = Headers(scope=request.scope) if request is not None else {}
    return headers.get(SESSION_HEADER, "").startswith(SESSION_PREFIX)


def add_views(tools: list[dict[str, Any]]) -> None:
    """Add its view to the `_meta` of each serialized tool that has one."""
    for tool in tools:
        if view := VIEW_OF_TOOL.get(tool["name"]):
            tool["_meta"] = {**tool.get("_meta", {}), "ui": {"resourceUri": view.uri}}


def views_of(caller: Caller, tools: Mapping[str, Tool]) -> list[Resource]:
    """Return the resources of the views that the caller may read. `tools` are those that the server offers."""
    return [
        Resource(
            uri=view.uri,
            name=view.name,
            title=view.title,
            description=view.description,
            mime_type=APP_MIME_TYPE,
            meta=META,
        )
        for view in VIEWS
        if view.is_open(caller, tools)
    ]


def read(caller: Caller, uri: str, tools: Mapping[str, Tool]) -> str:
    """Return the document of a view.

    Raises NotFound for an unknown URI, and Forbidden if the caller may not use the tool of the view.
    """
    view = next((view for view in VIEWS if view.uri == uri), None)
    if view is None:
        raise NotFound(f"there is no resource {uri[:200]!r}", allowed=", ".join(view.uri for view in VIEWS))
    if not view.is_open(caller, tools):
        raise Forbidden(f"{uri} requires the tool {view.tool}, which this connection may not use")
    return document(view)


@cache
def document(view: AppView) -> str:
    """Return the view as one document, because a host's policy forbids it to load anything.

    The policy of the document allows exactly its own script and style.
    """
    style = "\n".join(_static(name) for name in STYLES)
    script = "\n".join(_static(name) for name in view.scripts)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    context = {"view": view, "portal": settings.COMMONPLACE_URL, "version": __version__}
    body = render_to_string(f"apps/{view.name}.html", context)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{view.title}</title><style>{style}</style></head>\n{body}\n<script>{script}</script></html>\n"
    )


def _static(name: str) -> str:
    # collectstatic has collected the files in an installation; in a checkout, the finders know the folders
    path = finders.find(name) or staticfiles_storage.path(name)
    with open(path, encoding="utf-8") as file:
        return file.read()


def _hash(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


class RememberExtension:
    """ASGI middleware that issues a session id to clients that declare the extension when they initialize.

    The server keeps no session: the id itself says that the client declared the extension. Clients of the revisions
    before 2026-07-28 must send it with each later request. A made-up id only shows the names of the views.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or SESSION_HEADER in Headers(scope=scope):
            return await self.app(scope, receive, send)
        messages = await _body_messages(receive)
        is_declared = _declares_extension(b"".join(message.get("body", b"") for message in messages))

        async def replay() -> Message:
            return messages.pop(0) if messages else await receive()

        async def issue(message: Message) -> None:
            if is_declared and message["type"] == "http.response.start" and message["status"] == 200:
                MutableHeaders(scope=message)[SESSION_HEADER] = f"{SESSION_PREFIX}{uuid4().hex}"
            await send(message)

        await self.app(scope, replay, issue)


async def _body_messages(receive: Receive) -> list[Message]:
    messages = [await receive()]
    while messages[-1]["type"] == "http.request" and messages[-1].get("more_body"):
        messages.append(await receive())
    return messages


def _declares_extension(body: bytes) -> bool:
    if b'"initialize"' not in body or EXTENSION_ID.encode() not in body.replace(b"\\/", b"/"):
        return False  # spares parsing most bodies twice
    try:
        message = json.loads(body)
        declared = message["params"]["capabilities"]["extensions"][EXTENSION_ID]
        return message["method"] == "initialize" and APP_MIME_TYPE in declared["mimeTypes"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return False  # the SDK answers a malformed request
