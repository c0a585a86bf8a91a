"""A stand-in for the search service Tavily."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class Tavily(BaseHTTPRequestHandler):
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

    def log_message(self, *parts: object) -> None:
        pass


@pytest.fixture
def tavily(settings: Any) -> Iterator[type[Tavily]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Tavily)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings.TAVILY_URL, settings.TAVILY_API_KEY = f"http://127.0.0.1:{server.server_port}", "tvly-key"
    settings.TAVILY_TIMEOUT_S = 2.0
    Tavily.requests = []
    yield Tavily
    server.shutdown()
    server.server_close()
