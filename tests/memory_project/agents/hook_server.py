"""Stand-in for the server that hooks call, with the failures that a real one can have."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.http_servers import QuietHandler, serving

TEXT = "<commonplace-memories>\nrevenue excludes refunds (ana@example.org, 2026-03-01)\n</commonplace-memories>"


@dataclass
class HookServer:
    """`requests` holds (path, authorization, body). `failure` is silent, halved, broken, empty, a status, or none."""

    url: str = ""
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    failure: str = ""
    text: str = TEXT
    location: str = ""  # of redirects
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def paths(self) -> list[str]:
        return [path for path, _, _ in self.requests]


@contextmanager
def hook_server() -> Iterator[HookServer]:
    server = HookServer()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            server.requests.append((self.path, self.headers["Authorization"], None))
            self.answer({"email": "ana@example.org"})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.requests.append((self.path, self.headers["Authorization"], body))
            if "candidates" in self.path:
                self.answer({"staged": len(body["candidates"]), "known": 0})
            else:
                self.answer({"text": server.text, "memory_ids": ["5f0c"], "tokens": 21})

        def answer(self, value: Any) -> None:
            content = {"broken": b"<html>", "empty": b"{}"}.get(server.failure) or json.dumps(value).encode()
            if server.failure == "silent":
                server.released.wait(20)
                return
            self.send_response(int(server.failure) if server.failure.isdigit() else 200)
            if server.location:
                self.send_header("Location", server.location)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if server.failure == "halved" else content)

    with serving(Handler) as server.url:
        try:
            yield server
        finally:
            server.released.set()
