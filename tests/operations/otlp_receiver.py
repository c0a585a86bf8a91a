"""A stand-in for an OpenTelemetry collector: it keeps what is sent to it over OTLP/HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.http_servers import QuietHandler, serving


class Receiver:
    def __init__(self) -> None:
        self.url = ""
        self.bodies: list[tuple[str, bytes]] = []

    def spans(self) -> list[Any]:
        """Return all spans, each with the attributes of its process in `process`."""
        requests = [ExportTraceServiceRequest.FromString(body) for path, body in self.bodies if path == "/v1/traces"]
        return [
            span
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def traces(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for span in self.spans():
            found.setdefault(span.trace_id.hex(), []).append(span)
        return found

    def metrics(self) -> set[str]:
        requests = [ExportMetricsServiceRequest.FromString(body) for path, body in self.bodies if path == "/v1/metrics"]
        return {
            metric.name
            for request in requests
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            receiver.bodies.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with serving(Handler) as receiver.url:
        yield receiver
