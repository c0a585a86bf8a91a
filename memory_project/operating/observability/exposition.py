"""The text that Prometheus reads, on the server's own port or on METRICS_PORT."""

from __future__ import annotations

import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from django.conf import settings
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.multiprocess import MultiProcessCollector

from memory_project.operating.observability import installation_metrics, process_files

log = logging.getLogger(__name__)
CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
SOCKET_TIMEOUT_S = 10


def render() -> bytes:
    """Return the metrics of all processes on this machine, and of the installation."""
    installation = CollectorRegistry()
    installation.register(installation_metrics.Installation())
    return _of_processes() + generate_latest(installation)


def _of_processes() -> bytes:
    folder = process_files.folder()
    if folder is None:
        from memory_project.operating.observability.instruments import REGISTRY  # noqa: PLC0415 - declares metrics

        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    with process_files.locked(folder):
        process_files.merge_ended(folder)
        registry.register(MultiProcessCollector(None, str(folder)))  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def serve_on_own_port() -> bool:
    """Serve metrics on METRICS_PORT, in a thread. Returns False if the port is not set or taken.

    The first process of a machine takes the port. It reports the metrics of all of them.
    """
    if not settings.METRICS_PORT:
        return False
    try:
        server = ThreadingHTTPServer((settings.METRICS_HOST, settings.METRICS_PORT), _Handler)
    except OSError as error:
        log.info("METRICS_PORT %d is taken (%s)", settings.METRICS_PORT, error.strerror)
        return False
    process_files.enable()  # this process may only start others
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="metrics port", daemon=True).start()
    return True


class _Handler(BaseHTTPRequestHandler):
    timeout = SOCKET_TIMEOUT_S

    def do_GET(self) -> None:
        is_known = self.path.partition("?")[0] == "/metrics"
        body = render() if is_known else b"not found\n"
        self.send_response(200 if is_known else 404)
        self.send_header("Content-Type", CONTENT_TYPE if is_known else "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass
