"""SQL queries on warehouses.

The time of a query and the rows and bytes of its result are limited.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import TypeVar

from django.conf import settings

from analysis.operations import QuerySql
from analysis.sources import declared_texts, is_permitted
from analysis.sources.messages import without_private
from analysis.sql.declaration import SqlSource, is_sql, parse
from analysis.sql.engines import DIALECTS, ENGINES, OVERTIME, Stoppable
from analysis.sql.statements import check_reads, is_explain
from analysis.sql.values import MAX_CELL, Bounds, SqlResult
from foundation.database import connections
from foundation.operations.errors import DomainError, Invalid, LimitReached
from foundation.people.caller import Caller
from foundation.tools.budget import ENVELOPE
from foundation.tools.shortening import MARK
from foundation.work import beside, progress

POLL_S = 0.2
STOP_S = 5.0  # maximum number of seconds to wait for a canceled engine to stop
MAX_PLAN = 15_000  # maximum number of characters of a plan, which is one value
Value = TypeVar("Value")
NAMED = 5  # maximum number of columns that a note names


@dataclass(frozen=True)
class QueryResult:
    source: SqlSource
    result: SqlResult
    took_ms: float


def readable_sources(caller: Caller) -> dict[str, SqlSource]:
    return {source.name: source for source in _valid_sources() if is_permitted(caller, source.read_personas)}


def _valid_sources() -> list[SqlSource]:
    sources = []
    for name, text, is_from_file in declared_texts():
        if not is_sql(text):
            continue
        # An invalid declaration must not make the other warehouses unusable.
        with contextlib.suppress(DomainError):
            sources.append(parse(name, text, is_from_file=is_from_file))
    return sources


def run_query(caller: Caller, operation: QuerySql, *, max_s: float = inf) -> QueryResult:
    """Run one statement that only reads, for at most `max_s` seconds or the source's timeout, if that is less.

    Raises Invalid for any other statement or an unknown source, UpstreamFailed if the warehouse fails, LimitReached if
    the statement exceeds a limit, and Degraded if the warehouse's file or environment variable is missing.
    """
    source = _source_named(operation.source, caller)
    dialect = DIALECTS[source.engine]
    check_reads(operation.sql, dialect, source.functions)
    is_plan = is_explain(operation.sql, dialect)
    bounds = Bounds(
        rows=min(operation.limit, source.rows),
        bytes=settings.ANSWER_BUDGET_BYTES - ENVELOPE,
        text=MAX_PLAN if is_plan else MAX_CELL,
    )
    connections.close_if_pooled()  # don't hold a database connection while waiting for the warehouse
    started = time.monotonic()
    result = _run(source, operation.sql, bounds, min(source.timeout_s, max_s))
    if is_plan:  # a plan names the files of foreign tables
        rows = [[without_private(cell) if isinstance(cell, str) else cell for cell in row] for row in result.rows]
        result = replace(result, rows=rows)
    return QueryResult(source, result, 1000 * (time.monotonic() - started))


def try_source(source: SqlSource, timeout_s: float) -> list[str]:
    """Run a statement that reads no table on a warehouse that need not be saved. Raises as `run_query`."""
    connections.close_if_pooled()
    started = time.monotonic()
    bounds = Bounds(rows=1, bytes=10_000, text=100)
    _run(source, "SELECT 1 AS works", bounds, min(timeout_s, source.timeout_s))
    took_ms = 1000 * (time.monotonic() - started)
    return [
        f"{source.engine} answered after {took_ms:.0f} ms",
        f"read by: {', '.join(source.read_personas) or 'operators'}",
    ]


def notes_of(result: SqlResult, sql: str = "") -> list[str]:
    """Return what the result of a statement lacks, for whoever reads it."""
    notes = ["there are more rows: aggregate, filter, or raise limit"] if result.is_cut else []
    if not result.rows and sql.replace(";", " ").lower().split() == ["show", "tables"]:
        notes.append("the current schema has no tables: SHOW ALL TABLES lists those of every schema")
    if result.columns_left_out:
        notes.append(f"{result.columns_left_out} more columns do not fit: name the columns you need")
    if result.shortened:
        named = ", ".join(result.shortened[:NAMED]) + (" and others" if len(result.shortened) > NAMED else "")
        notes.append(f"values were shortened where {MARK} says so, in {named}: select parts of them")
    return notes


def _source_named(name: str, caller: Caller) -> SqlSource:
    sources = readable_sources(caller)
    if name and name in sources:
        return sources[name]
    if not name and len(sources) == 1:
        return next(iter(sources.values()))
    problem = f"{name[:60]!r} is unknown" if name else "is missing"
    if any(source.name == name or not (name or sources) for source in _valid_sources() if not source.read_personas):
        problem = f"{name[:60]!r} is" if name else "is missing, and the declared sources are"
        problem += " for operators only, because the source's declaration names no read_personas"
    allowed = ", ".join(sorted(sources)) or "none, because no source is declared for your personas"
    raise Invalid(problem, field="source", allowed=allowed)


def _run(source: SqlSource, sql: str, bounds: Bounds, timeout_s: float) -> SqlResult:
    engine = ENGINES[source.engine](source)
    meanwhile = partial(beside.begin, platform=source.platform, dialect=DIALECTS[source.engine])
    return within_time(engine, lambda: engine.run(sql, bounds), timeout_s, OVERTIME.format(timeout_s), meanwhile)


def within_time(
    engine: Stoppable,
    work: Callable[[], Value],
    timeout_s: float,
    overtime: str,
    meanwhile: Callable[[], None] | None = None,
) -> Value:
    """Return what `work` returns. Do `meanwhile` beside it, and report progress to the client.

    The engine is canceled after `timeout_s`, which raises LimitReached with the message `overtime`, or when the client
    disconnects. It is closed as soon as the work has stopped.
    """
    started = time.monotonic()
    pool = ThreadPoolExecutor(1, thread_name_prefix="query")
    try:
        future = pool.submit(_work_and_close, engine, work)
    except RuntimeError:  # no thread can be started
        engine.close()
        raise
    try:
        if meanwhile:
            meanwhile()
        while True:
            try:
                return future.result(timeout=POLL_S)
            except NotYet:
                elapsed = time.monotonic() - started
                if future.done():
                    return future.result()
                if elapsed > timeout_s:
                    raise LimitReached(overtime) from None
                progress.tell(elapsed, timeout_s, "still working")
    except BaseException:
        threading.Thread(target=engine.cancel, daemon=True).start()
        with contextlib.suppress(NotYet, CancelledError):  # give up on an engine that hasn't stopped
            future.exception(timeout=STOP_S)
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _work_and_close(engine: Stoppable, work: Callable[[], Value]) -> Value:
    with closing(engine):  # in the thread of the work, because no engine can be closed while it is running
        return work()
