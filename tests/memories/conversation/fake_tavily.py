"""A stand-in for the search service Tavily."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.http_servers import QuietHandler, serving


class Tavily(QuietHandler):
    response: tuple[int, Any] = (200, {})
    requests: list[tuple[str, str, Any]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append((self.path, self.headers["Authorization"], body))
        status, content = self.response
        text = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@pytest.fixture
def tavily(settings: Any) -> Iterator[type[Tavily]]:
    settings.TAVILY_API_KEY, settings.TAVILY_TIMEOUT_S = "tvly-key", 2.0
    Tavily.requests = []
    with serving(Tavily) as settings.TAVILY_URL:
        yield Tavily
