"""Web servers of a test, which run in its process and answer as a handler says, and ports for other servers."""

from __future__ import annotations

import random
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

POLL_S = 0.02  # seconds after which an idle server notices that it shall stop


class QuietHandler(BaseHTTPRequestHandler):
    """A handler that logs no requests."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True  # a test may end while a request waits
    request_queue_size = 50  # connections that wait to be accepted

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # clients may give up
            super().handle_error(request, client_address)


def free_port() -> int:
    """Return a port on which nobody listens. None of those that the system gives away meanwhile."""
    dice = random.SystemRandom()
    while True:
        port = dice.randrange(10_000, 30_000)  # Linux gives away ports from 32768 on, macOS from 49152 on
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def serving(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    """Answer requests, each in a thread of its own. Yields the server's address, without a slash at its end."""
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(POLL_S,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
