"""Web search over HTTP, against a fake of Tavily's API."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from foundation.operations.errors import Upstream
from foundation.people.caller import Caller
from memories.models import MemoryRecord
from tests.memories.conversation.conftest import call

pytestmark = pytest.mark.django_db


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


def test_results_are_returned_and_not_stored(tavily: type[Tavily], alice: Caller) -> None:
    result = {"title": "Example Result", "url": "https://example.com", "content": "Result snippet...", "score": 0.9}
    tavily.response = (200, {"results": [result, {"title": "x", "url": "javascript:alert(1)", "content": "y"}]})
    response = call(alice, "search_web", query="search terms")
    assert response["query"] == "search terms"
    assert response["results"][0] == {key: result[key] for key in ("title", "url", "content")}
    assert response["results"][1]["url"] == ""
    ((path, authorization, body),) = tavily.requests
    assert (path, authorization, body["query"]) == ("/search", "Bearer tvly-key", "search terms")
    assert not MemoryRecord.objects.exists()


@pytest.mark.parametrize(
    ("response", "fault"),
    [
        ((401, {"detail": "bad key tvly-key"}), "responded with status 401"),
        ((500, "oops"), "responded with status 500"),
        ((200, "no JSON"), "can't be read"),
        ((200, []), "can't be read"),
        ((200, {"results": "x" * 3_000_000}), "AnswerTooLarge"),
    ],
)
def test_an_error_of_the_service_is_reported_without_its_text(
    tavily: type[Tavily], alice: Caller, response: tuple[int, Any], fault: str
) -> None:
    tavily.response = response
    with pytest.raises(Upstream) as caught:
        call(alice, "search_web", query="x")
    assert fault in caught.value.message
    assert "tvly-key" not in caught.value.message
