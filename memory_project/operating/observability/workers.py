"""Metrics, traces and request ids of tasks. A task continues the trace of the request that has queued it."""

from __future__ import annotations

import multiprocessing.util
import time
from contextlib import ExitStack
from typing import Any

from django.dispatch import receiver
from django_q.signals import post_execute_in_worker, post_spawn, pre_enqueue, pre_execute

from memory_project.operating.observability import calls, request_context, tracing

CARRIER = "commonplace_trace"  # key in a queued task


class _Running:
    """The task that this worker process runs."""

    def __init__(self) -> None:
        self.contexts = ExitStack()
        self.started = 0.0

    def begin(self, name: str, carrier: dict[str, str]) -> None:
        self.contexts.close()
        self.started = time.perf_counter()
        self.contexts.enter_context(tracing.task_span(name, carrier))
        own = carrier.get("request_id") or tracing.trace_id() or request_context.new_id()
        self.contexts.enter_context(request_context.within(own))

    def end(self, name: str, is_success: bool) -> None:
        calls.task_done(name, is_success, time.perf_counter() - self.started)
        self.contexts.close()


_running = _Running()


@receiver(pre_enqueue)
def add_trace(sender: Any, task: dict[str, Any], **extra: Any) -> None:
    carrier: dict[str, str] = {}
    tracing.inject(carrier)
    if request_id := request_context.request_id():
        carrier["request_id"] = request_id
    if carrier:
        task[CARRIER] = carrier


@receiver(post_spawn)
def start_in_worker(sender: Any, **extra: Any) -> None:
    from memory_project.operating.observability import exposition, process_metrics  # noqa: PLC0415 - only workers need them

    # not in the parent: threads don't survive a fork
    process_metrics.start("worker")
    tracing.start("worker")
    exposition.serve_on_own_port()
    multiprocessing.util.Finalize(None, tracing.flush, exitpriority=10)  # a forked process runs no atexit functions


@receiver(pre_execute)
def task_starts(sender: Any, task: dict[str, Any], **extra: Any) -> None:
    carrier = task.get(CARRIER)
    _running.begin(_name_of(task), carrier if isinstance(carrier, dict) else {})


@receiver(post_execute_in_worker)
def task_ends(sender: Any, task: dict[str, Any], **extra: Any) -> None:
    _running.end(_name_of(task), bool(task.get("success")))


def _name_of(task: dict[str, Any]) -> str:
    func = task.get("func")
    name = func if isinstance(func, str) else f"{getattr(func, '__module__', '')}.{getattr(func, '__qualname__', '')}"
    return calls.label_of_task(name)
