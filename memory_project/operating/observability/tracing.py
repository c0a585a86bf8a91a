"""Traces and metrics over OpenTelemetry, if OTEL_EXPORTER_OTLP_ENDPOINT is set and the extra `otel` is installed.

The SDK reads its own variables: OTEL_EXPORTER_OTLP_*, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER,
OTEL_SDK_DISABLED and others. span_texts.py removes everything from spans that could quote a memory.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from foundation.database.engine import spans
from memory_project import __version__

log = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
FLUSH_WITHIN_MS = 3_000

_tracer: Any = None  # None while nothing is traced


def is_wanted() -> bool:
    is_disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not is_disabled and any(os.environ.get(name) for name in ENDPOINTS)


def is_installed() -> bool:
    return find_spec("opentelemetry.sdk") is not None and find_spec("opentelemetry.exporter") is not None


def is_on() -> bool:
    return _tracer is not None


def start(kind: str) -> None:
    """Trace this process if an operator wants it. `kind` is web, worker or mcp. May be called again."""
    global _tracer
    if _tracer is not None or not is_wanted():
        return
    if not is_installed():
        log.warning("OTEL_EXPORTER_OTLP_ENDPOINT is set, but the extra `otel` is not installed: nothing is traced")
        return
    # Import only here: processes that are not traced save a third of a second.
    from opentelemetry import trace  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    from memory_project.operating.observability.span_texts import WithoutTexts  # noqa: PLC0415

    os.environ.setdefault("OTEL_SERVICE_NAME", "commonplace")
    os.environ.setdefault("OTEL_SEMCONV_STABILITY_OPT_IN", "http")  # the names of attributes that are stable
    own = {"service.version": __version__, "service.instance.id": uuid.uuid4().hex, "commonplace.process": kind}
    resource = Resource.create(own)
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(WithoutTexts(OTLPSpanExporter())))
    trace.set_tracer_provider(provider)
    _start_metrics(resource)
    HTTPXClientInstrumentor().instrument()
    _tracer = provider.get_tracer("commonplace", __version__)
    spans.record_with(_statement_span)


def _start_metrics(resource: Any) -> None:
    from opentelemetry import metrics  # noqa: PLC0415 - see start()
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415

    if os.environ.get("OTEL_METRICS_EXPORTER", "otlp") == "none":
        return
    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    metrics.set_meter_provider(MeterProvider(resource=resource, metric_readers=[reader]))


def flush() -> None:
    """Send the spans and metrics that are waiting. A process calls this before it ends."""
    if _tracer is None:
        return
    from opentelemetry import metrics, trace  # noqa: PLC0415 - see start()

    for provider in (trace.get_tracer_provider(), metrics.get_meter_provider()):
        if hasattr(provider, "force_flush"):
            provider.force_flush(FLUSH_WITHIN_MS)


def trace_id() -> str:
    """Return the id of the current trace in hexadecimal, or "" if there is none."""
    if _tracer is None:
        return ""
    from opentelemetry import trace  # noqa: PLC0415 - see start()

    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else ""


class RequestSpan:
    """The span of a request, or none."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def answered(self, status: int) -> None:
        if self._span is None:
            return
        from opentelemetry.trace import StatusCode  # noqa: PLC0415 - see start()

        self._span.set_attribute("http.response.status_code", status)
        if status >= 500:
            self._span.set_status(StatusCode.ERROR)


@contextmanager
def request_span(method: str, headers: Mapping[str, str]) -> Iterator[RequestSpan]:
    """Open the span of a request. It continues the trace that the headers name, if any."""
    if _tracer is None:
        yield RequestSpan()
        return
    from opentelemetry.propagate import extract  # noqa: PLC0415 - see start()
    from opentelemetry.trace import SpanKind  # noqa: PLC0415

    method = method if method in METHODS else "_OTHER"
    with _tracer.start_as_current_span(
        method,
        context=extract(dict(headers)),
        kind=SpanKind.SERVER,
        attributes={"http.request.method": method},
        record_exception=False,
        set_status_on_exception=True,
    ) as span:
        yield RequestSpan(span)


def name_route(method: str, route: str) -> None:
    """Name the current request's span after the pattern of its URL, which has no values in it."""
    if _tracer is None:
        return
    from opentelemetry import trace  # noqa: PLC0415 - see start()

    span = trace.get_current_span()
    span.update_name(f"{method} /{route}")
    span.set_attribute("http.route", f"/{route}")


@contextmanager
def _statement_span(statement: Any) -> Iterator[None]:
    from opentelemetry import trace  # noqa: PLC0415 - see start()

    if not trace.get_current_span().is_recording():  # work outside of requests and tasks has no trace
        yield
        return
    operation, table = spans.summary(statement)
    attributes = {"db.system.name": "postgresql", "db.operation.name": operation}
    attributes |= {"db.collection.name": table} if table else {}
    name = f"{operation} {table}".strip()
    with _tracer.start_as_current_span(
        name, kind=trace.SpanKind.CLIENT, attributes=attributes, record_exception=False, set_status_on_exception=True
    ):
        yield


def inject(carrier: MutableMapping[str, Any]) -> None:
    """Add the current trace to a task that is queued."""
    if _tracer is None:
        return
    from opentelemetry.propagate import inject as write  # noqa: PLC0415 - see start()

    write(carrier)


@contextmanager
def task_span(task: str, carrier: Mapping[str, Any]) -> Iterator[Any]:
    """Open the span of a task. It continues the trace of the request that has queued the task."""
    if _tracer is None:
        yield None
        return
    from opentelemetry.propagate import extract  # noqa: PLC0415 - see start()
    from opentelemetry.trace import SpanKind  # noqa: PLC0415

    with _tracer.start_as_current_span(
        f"task {task}",
        context=extract(carrier),
        kind=SpanKind.CONSUMER,
        attributes={"commonplace.task": task},
        record_exception=False,
    ) as span:
        yield span
