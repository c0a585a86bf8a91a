"""The metrics of processes: counters, histograms and gauges. docs/observability.md lists them.

Labels have few values: no person, no id and no text is one.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY = CollectorRegistry()
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
MEMORIES = (0, 1, 2, 5, 10, 20, 50, 100, 150, 300)

CALLS = Counter(
    "commonplace_calls",
    "Calls of tools, REST requests, pages and tasks.",
    ["door", "tool", "outcome"],
    registry=REGISTRY,
)
DURATION = Histogram(
    "commonplace_call_duration_seconds", "Durations of calls.", ["door", "tool"], buckets=SECONDS, registry=REGISTRY
)
CANDIDATES = Histogram(
    "commonplace_recall_candidates", "Memories that a recall has compared.", buckets=MEMORIES, registry=REGISTRY
)
DEGRADED = Counter("commonplace_recall_degraded", "Recalls without embeddings or reranking.", registry=REGISTRY)
ATTACHED = Counter("commonplace_context_attached", "Memories attached to responses.", registry=REGISTRY)
SKIPPED = Counter(
    "commonplace_context_skipped", "Responses without attached memories, by reason.", ["reason"], registry=REGISTRY
)
REFUSED = Counter("commonplace_requests_refused", "Requests refused because too many were waiting.", registry=REGISTRY)
WAITING = Gauge(
    "commonplace_requests_waiting",
    "Requests that wait for their turn.",
    ["queue"],
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
RUNNING = Gauge(
    "commonplace_requests_running",
    "Requests that have their turn.",
    ["queue"],
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
POOL = Gauge(
    "commonplace_pool_connections",
    "Database connections of the pools, by state.",
    ["database", "state"],
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
POOL_WAITING = Gauge(
    "commonplace_pool_waiting",
    "Calls that wait for a connection of a pool.",
    ["database"],
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
BREAKER = Gauge(
    "commonplace_breaker_open",
    "1 while a process calls another system only from time to time because it has failed.",
    ["breaker"],
    multiprocess_mode="livemax",
    registry=REGISTRY,
)
PROCESSES = Gauge(
    "commonplace_processes",
    "Processes that report metrics.",
    ["kind"],
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
