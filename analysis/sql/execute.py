"""SQL queries on warehouses.

The time of a query and the rows and bytes of its result are limited.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from datetime import time as clock_time
from decimal import Decimal
from typing import Any
from uuid import UUID

from analysis.operations import QuerySql
from analysis.sources import declared_texts
from analysis.sources.interface import UpstreamFailed
from analysis.sql.declaration import SqlSource, is_sql, parse
from analysis.sql.engines import DIALECTS, ENGINES, Engine, Rows
from analysis.sql.statements import check_reads, is_explain
from memories.contract import progress
from memories.contract.budget import fit_items
from memories.contract.errors import DomainError, Invalid
from memories.database import connections
from memories.identity.caller import Caller

POLL_S = 0.2
STOP_S = 5.0  # maximum number of seconds to wait for a canceled engine to stop
MAX_CELL = 2_000  # maximum number of characters of one text value
MAX_PLAN = 15_000  # the same for a plan, which is one value
MAX_EXACT = 2**53 - 1  # the largest integer that is exact in JSON numbers of every client


@dataclass(frozen=True)
class QueryResult:
    """The leading rows of a query's result.

    `is_cut` means that there are more rows, which the row limit or the response budget left out.
    """

    source: SqlSource
    columns: list[str]
    rows: list[list[Any]]
    is_cut: bool
    took_ms: float


def readable_sources(caller: Caller) -> dict[str, SqlSource]:
    by_name: dict[str, SqlSource] = {}
    for name, text, is_from_file in declared_texts():
        if not is_sql(text):
            continue
        try:
            source = parse(name, text, is_from_file=is_from_file)
        except DomainError:
            continue  # an invalid declaration must not make the other warehouses unusable
        if caller.is_admin or not source.read_personas or caller.personas & set(source.read_personas):
            by_name[name] = source
    return by_name


def run_query(operation: QuerySql, *, caller: Caller) -> QueryResult:
    """Run one statement that only reads.

    Raises Invalid for any other statement or an unknown source, UpstreamFailed if the warehouse fails or takes too
    long, and Degraded if the warehouse's file or environment variable is missing.
    """
    sources = readable_sources(caller)
    source = _source_named(operation.source, sources)
    check_reads(operation.sql, DIALECTS[source.engine])
    row_limit = min(operation.limit, source.rows)
    connections.close_if_pooled()  # don't hold a database connection while waiting for the warehouse
    started = time.monotonic()
    columns, rows = _within_time(ENGINES[source.engine](source), operation.sql, row_limit + 1, source.timeout_s)
    max_text = MAX_PLAN if is_explain(operation.sql, DIALECTS[source.engine]) else MAX_CELL
    shown_rows, omitted = fit_items([[plain(value, max_text) for value in row] for row in rows[:row_limit]])
    return QueryResult(
        source, columns, shown_rows, len(rows) > row_limit or omitted > 0, 1000 * (time.monotonic() - started)
    )


def _source_named(name: str, sources: dict[str, SqlSource]) -> SqlSource:
    if name and name in sources:
        return sources[name]
    if not name and len(sources) == 1:
        return next(iter(sources.values()))
    problem = f"{name[:60]!r} is unknown" if name else "is missing"
    allowed = ", ".join(sorted(sources)) or "none, because no source is declared for your personas"
    raise Invalid(problem, field="source", allowed=allowed)


def _within_time(engine: Engine, sql: str, limit: int, timeout_s: float) -> Rows:
    """Return the column names and at most `limit` rows, and report progress to the client while the engine works.

    The engine is canceled after `timeout_s`, which raises UpstreamFailed, or when the client disconnects. It is closed
    as soon as it has stopped.
    """
    started, pool = time.monotonic(), ThreadPoolExecutor(1, thread_name_prefix="query")
    future = pool.submit(_run_and_close, engine, sql, limit)
    try:
        while True:
            try:
                return future.result(timeout=POLL_S)
            except NotYet:
                elapsed = time.monotonic() - started
                if future.done():
                    return future.result()
                if elapsed > timeout_s:
                    raise UpstreamFailed(
                        f"the query took longer than {timeout_s:g} s and was canceled: "
                        "request fewer rows or add a filter"
                    ) from None
                progress.tell(elapsed, timeout_s, "the warehouse is working")
    except BaseException:
        threading.Thread(target=engine.cancel, daemon=True).start()
        with contextlib.suppress(NotYet, CancelledError):  # give up on an engine that hasn't stopped
            future.exception(timeout=STOP_S)
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _run_and_close(engine: Engine, sql: str, limit: int) -> Rows:
    with closing(engine):  # in the thread of the statement, because no engine can be closed while it is running
        return engine.run(sql, limit)


def plain(value: Any, max_text: int = MAX_CELL) -> Any:
    """Convert a database value to a JSON value.

    Decimals, times, NaN, infinity and integers beyond MAX_EXACT become texts without loss. Binary values become
    hexadecimal texts. Texts are cut to `max_text` characters.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= MAX_EXACT else str(value)
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, datetime | date | clock_time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if type(value).__name__ == "relativedelta":  # Trino's INTERVAL YEAR TO MONTH
        return f"{12 * value.years + value.months} months"
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()[:max_text]
    if isinstance(value, dict):
        return {str(key): plain(item, max_text) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item, max_text) for item in value]
    text = str(value)
    return text if len(text) <= max_text else f"{text[:max_text]}… ({len(text)} characters)"
