"""Turns metrics on in this process: counts calls, and samples queues and the connection pool every few seconds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import connections as databases

from foundation import embedding
from foundation.work.fair_queue import FairQueue
from memories import metrics_hooks
from memories.retrieval import rerank
from memory_project.operating.observability import calls, process_files

log = logging.getLogger(__name__)

SAMPLED_EVERY_S = 5.0

_samplers: list[Callable[[], None]] = []
_is_on = False


def is_wanted() -> bool:
    return bool(settings.METRICS_TOKEN or settings.METRICS_PORT)


def start(kind: str) -> None:
    """Report metrics of this process if an operator wants metrics. `kind` is web or worker."""
    if not is_wanted():
        return
    process_files.enable()  # before the metrics are declared
    from memory_project.operating.observability import instruments  # noqa: PLC0415 - declares them

    observe()
    instruments.PROCESSES.labels(kind).set(1)
    threading.Thread(target=_sample_forever, name="metrics", daemon=True).start()


def observe() -> None:
    """Count calls, recalls and attached context of this process."""
    global _is_on
    _is_on = True
    from memory_project.operating.observability import instruments  # noqa: PLC0415 - processes without metrics declare none

    counters: dict[tuple[str, str, str], Any] = {}
    timers: dict[tuple[str, str], Any] = {}

    def count(door: str, tool: str, outcome: str, seconds: float) -> None:
        # labels() takes longer than everything else, so its results are kept; there are few combinations
        counter = counters.get((door, tool, outcome))
        if counter is None:
            counter = counters[door, tool, outcome] = instruments.CALLS.labels(door, tool, outcome)
        timer = timers.get((door, tool))
        if timer is None:
            timer = timers[door, tool] = instruments.DURATION.labels(door, tool)
        counter.inc()
        timer.observe(seconds)

    calls.count_with(count)
    metrics_hooks.observe_with(_Counting())


class _Counting:
    def __init__(self) -> None:
        from memory_project.operating.observability import instruments  # noqa: PLC0415 - see observe()

        self.instruments = instruments

    def recalled(self, *, candidates: int, is_degraded: bool) -> None:
        self.instruments.CANDIDATES.observe(candidates)
        if is_degraded:
            self.instruments.DEGRADED.inc()

    def context_attached(self, memories: int) -> None:
        self.instruments.ATTACHED.inc(memories)

    def context_skipped(self, reason: str) -> None:
        self.instruments.SKIPPED.labels(reason).inc()


def count_refusal() -> None:
    """Count a request that is refused because too many are waiting."""
    if _is_on:
        from memory_project.operating.observability.instruments import REFUSED  # noqa: PLC0415 - see observe()

        REFUSED.inc()


def watch_queues(**queues: FairQueue) -> None:
    """Report how many requests wait and run in these queues."""

    def sample_queues() -> None:
        from memory_project.operating.observability.instruments import RUNNING, WAITING  # noqa: PLC0415 - see observe()

        for name, queue in queues.items():
            WAITING.labels(name).set(queue.count_waiting())
            RUNNING.labels(name).set(queue.count_running())

    sample_with(sample_queues)


def sample_with(sampler: Callable[[], None]) -> None:
    """Call the function every SAMPLED_EVERY_S seconds, in a thread. It sets gauges."""
    _samplers.append(sampler)


def _sample_forever() -> None:
    pause = threading.Event()
    while True:
        try:
            sample()
        except Exception:  # a source that is away must not end the samples of the others
            log.exception("metrics of this process could not be sampled")
        pause.wait(SAMPLED_EVERY_S)


def sample() -> None:
    _sample_pool()
    _sample_breakers()
    for sampler in _samplers:
        sampler()


def _sample_pool() -> None:
    from memory_project.operating.observability.instruments import POOL, POOL_WAITING  # noqa: PLC0415 - see observe()

    wrapper: Any = databases["default"]
    # the property `pool` would open one
    for alias, pool in list(wrapper._connection_pools.items()):
        stats = pool.get_stats()
        POOL.labels(alias, "idle").set(stats["pool_available"])
        POOL.labels(alias, "used").set(stats["pool_size"] - stats["pool_available"])
        POOL_WAITING.labels(alias).set(stats["requests_waiting"])


def _sample_breakers() -> None:
    from memory_project.operating.observability.instruments import BREAKER  # noqa: PLC0415 - see observe()

    BREAKER.labels("embeddings").set(embedding.state()["state"] in ("away", "failed"))
    BREAKER.labels("reranking").set(bool(rerank.problem()))
