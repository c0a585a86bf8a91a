"""Requests of the hook program to the REST API, with the standard library alone."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request, UnknownHandler

from memory_project import __version__
from memory_project.agents.hook_program.connection import HookConnection, ServerFailed

API = "/api/v1/"
MAX_ANSWER_BYTES = 256_000


def request(connection: HookConnection, path: str, body: dict[str, Any] | None, *, timeout: float) -> dict[str, Any]:
    """POST `body` as JSON, or GET without one, and return the answer. `timeout` in seconds counts for each read.

    Raises ServerFailed. Redirects are failures: the token must not follow them to another host.
    """
    data = None if body is None else json.dumps(body).encode()
    headers = {
        "Authorization": f"Bearer {connection.token}",
        "Content-Type": "application/json",
        "Accept": "application/json",
        "User-Agent": f"commonplace-hook/{__version__}",
    }
    sent = Request(connection.url + API + path, data=data, headers=headers)
    try:
        with _opener(connection.url).open(sent, timeout=timeout) as answer:
            status = answer.status
            content = answer.read(MAX_ANSWER_BYTES + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise ServerFailed(f"{type(reason).__name__}: {reason}"[:200]) from None
    if status != 200:
        raise ServerFailed(f"status {status}", is_down=status in (401, 429) or not 400 <= status < 500)
    if len(content) > MAX_ANSWER_BYTES:
        raise ServerFailed(f"more than {MAX_ANSWER_BYTES:,} bytes")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise ServerFailed("the answer is not JSON") from None
    if not isinstance(value, dict):
        raise ServerFailed("the answer is not an object")
    return value


def _opener(url: str) -> OpenerDirector:
    """Return an opener that honors the proxy's variables. Certificates are loaded only where they are needed."""
    opener = OpenerDirector()
    opener.add_handler(ProxyHandler())
    opener.add_handler(HTTPHandler())
    opener.add_handler(UnknownHandler())
    if urlsplit(url).scheme == "https":
        opener.add_handler(HTTPSHandler())
    return opener
