"""Database engines of query_sql, each with its own DB-API driver."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from django.conf import settings

from analysis.sources.interface import UpstreamFailed
from analysis.sources.messages import MAX_MESSAGE, error_message, without_private
from analysis.sql.declaration import SqlSource
from analysis.sql.postgresql_role import RoleRefused, check_role
from analysis.sql.processes import POOL
from analysis.sql.statements import is_explain, without_semicolon
from analysis.sql.values import Beginning, Bounds, SqlResult, bounded
from foundation.operations.errors import Degraded, DomainError, LimitReached
from foundation.tools.shortening import MARK

LIMITS = {
    "memory": "the statement needs more than {0} MB of memory (ANALYSIS_SQL_MEMORY_MB): aggregate or filter first",
    "disk": "the statement needs more than {1} MB of temporary files (ANALYSIS_SQL_DISK_MB): aggregate or filter first",
}
# Types of PostgreSQL, by their oid, whose values are small: bool, numbers, times, interval and uuid.
SMALL_TYPES = {16, 20, 21, 23, 26, 700, 701, 1082, 1083, 1114, 1184, 1186, 1266, 1700, 2950}
MAX_COLUMNS = 800  # PostgreSQL returns at most 1,664, and each of these may take two (see _with_short_values)
OVERTIME = "the query took longer than {:g} s (timeout_s of the source) and was canceled: aggregate, or add a filter"
TRINO_MISSING = "the source {!r} needs Trino's driver, which is not installed: pip install 'commonplace[trino]'"
# The name of a PostgreSQL cursor, and what its declaration adds to an error's quotation of the statement.
CURSOR = "query_sql"
DECLARED = re.compile(rf'(LINE 1: )DECLARE "{CURSOR}" CURSOR FOR (.*\n) {{31}}')


class Stoppable(Protocol):
    """A running statement that another thread may cancel."""

    def cancel(self) -> None: ...

    def close(self) -> None: ...


class Engine(Stoppable, Protocol):
    """A connection to a warehouse. `run` raises UpstreamFailed if the query fails, and LimitReached at a limit."""

    def run(self, sql: str, bounds: Bounds) -> SqlResult: ...


class DuckDBProcess:
    """A process of the pool, lent until `close`."""

    limit_messages = LIMITS

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._is_closed = False
        self._is_reusable = True
        self._process = POOL.take()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the response to a request. Raises LimitReached, or UpstreamFailed if the process ends meanwhile."""
        try:
            response = self._process.run(request)
        except EOFError:
            raise self._ended() from None
        self._is_reusable = not response.pop("is_large", False)
        if limit := response.get("limit"):
            raise LimitReached(self.limit_messages[limit].format(*self._process.limits))
        return response

    def _ended(self) -> DomainError:
        self._is_reusable = False
        if self._process.is_stopped:
            return UpstreamFailed("the query was canceled")
        status = self._process.end()
        if -status in (signal.SIGKILL, signal.SIGABRT):  # the system's memory is exhausted, or the process's own
            return LimitReached(self.limit_messages["memory"].format(*self._process.limits))
        return UpstreamFailed(f"DuckDB crashed while it ran the statement (status {status}): write it in another way")

    def cancel(self) -> None:
        with self._guard:
            if not self._is_closed:  # afterwards, the process runs somebody else's statement
                self._process.kill()

    def close(self) -> None:
        with self._guard:
            if self._is_closed:
                return
            self._is_closed = True
        POOL.give_back(self._process, reuse=self._is_reusable and self._process.is_running())


class DuckDB(DuckDBProcess):
    """A process that opens the source's file read-only for one statement.

    Queries can't access other files or the network. While the statement runs, other programs can't write the file, but
    they can replace it.
    """

    def __init__(self, source: SqlSource) -> None:
        self._path = Path(settings.ANALYSIS_FILES) / source.database
        self._name = source.name
        if not self._path.is_file():
            raise Degraded(f"the file of the source {source.name!r} is missing below ANALYSIS_FILES")
        super().__init__()

    def run(self, sql: str, bounds: Bounds) -> SqlResult:
        request = {
            "path": str(self._path),
            "sql": without_semicolon(sql, "duckdb"),
            "is_explain": is_explain(sql, "duckdb"),
            "bounds": asdict(bounds),
        }
        response = self.ask(request)
        if "error" in response:
            raise self._failed(response["error"], is_open=response["is_open"])
        return SqlResult(**response)

    def _failed(self, message: str, *, is_open: bool) -> UpstreamFailed:
        if "Conflicting lock" in message:
            return UpstreamFailed(f"{self._name} is being written by another program: try again when it has finished")
        message = without_private(message, (str(self._path), str(self._path.resolve())))[:MAX_MESSAGE]
        return UpstreamFailed(message if is_open else f"{self._name} can't be opened: {message}")


def _session(source: SqlSource) -> dict[str, Any]:
    """Return the settings of a session on PostgreSQL. The memory counts for each sort and hash of a statement."""
    return {
        "default_transaction_read_only": "on",
        "statement_timeout": int(source.timeout_s * 1000),
        "lock_timeout": int(source.timeout_s * 1000),
        "idle_in_transaction_session_timeout": int(source.timeout_s * 1000) + 60_000,
        "work_mem": "64MB",
        "hash_mem_multiplier": 1,
        "standard_conforming_strings": "on",  # as lexer.py reads a backslash
    }


class PostgreSQL:
    """A PostgreSQL connection with read-only transactions and a statement timeout."""

    def __init__(self, source: SqlSource) -> None:
        import psycopg  # noqa: PLC0415 - beside the others
        from psycopg.types.string import TextLoader  # noqa: PLC0415

        self._error = psycopg.Error
        self._canceled = psycopg.errors.QueryCanceled
        self._timeout_s = source.timeout_s
        dsn = source.secret(source.dsn_env)
        options = " ".join(f"-c {name}={value}" for name, value in _session(source).items())
        try:
            self._connection = psycopg.connect(dsn, options=options, connect_timeout=10)
        except psycopg.Error:
            raise UpstreamFailed(f"{source.name} can't be reached with {source.dsn_env}") from None
        try:
            self._connection.read_only = True
            info = self._connection.info
            self._private = (info.host, info.hostaddr, info.password)
            check_role(source, self._connection)
            self._connection.adapters.register_loader("interval", TextLoader)  # timedelta has no months
        except BaseException:
            self._connection.close()
            raise

    def run(self, sql: str, bounds: Bounds) -> SqlResult:
        try:
            if is_explain(sql, DIALECTS["postgresql"]):  # no cursor can be declared for it
                rows = self._connection.execute(sql.encode())
                return bounded([column.name for column in rows.description or ()], _one_by_one(rows), bounds)
            return self._fetched(sql, bounds)
        except self._canceled:
            raise LimitReached(OVERTIME.format(self._timeout_s)) from None
        except self._error as error:
            raise UpstreamFailed(DECLARED.sub(r"\1\2", error_message(error, self._private))) from None
        finally:
            if not self._connection.closed:
                self._connection.rollback()

    def _fetched(self, sql: str, bounds: Bounds) -> SqlResult:
        # A named cursor does not read the whole result. Declared for the statement as it is, it names the columns, and
        # an error has the place in the statement; nothing is executed until rows are fetched.
        with closing(self._connection.cursor(CURSOR)) as cursor:
            cursor.execute(sql.encode())
            columns = [(column.name, column.type_code) for column in cursor.description or ()]
            if all(kind in SMALL_TYPES for _, kind in columns):
                return bounded([name for name, _ in columns], _one_by_one(cursor), bounds)
        with closing(self._connection.cursor(CURSOR)) as cursor:
            cursor.execute(_with_short_values(without_semicolon(sql, "postgres"), columns, bounds).encode())
            shown = columns[:MAX_COLUMNS]
            result = bounded([name for name, _ in shown], _merged(cursor, shown), bounds)
            return replace(result, columns_left_out=result.columns_left_out + len(columns) - len(shown))

    def cancel(self) -> None:
        self._connection.cancel_safe(timeout=2.0)

    def close(self) -> None:
        self._connection.close()


def _with_short_values(sql: str, columns: Sequence[tuple[str, int]], bounds: Bounds) -> str:
    """Return a statement in which a large value is null, and followed by the beginning of its text.

    A single value can have 1 GB, and the driver would read it whole.
    """
    largest = max(2 * bounds.bytes // len(columns), 4 * bounds.text)
    selected = []
    for place, (_, kind) in enumerate(columns[:MAX_COLUMNS]):
        if kind in SMALL_TYPES:
            selected.append(f"c{place}")
            continue
        length = f"octet_length(c{place}::text)"
        beginning = f"left(c{place}::text, {bounds.text}) || '{MARK} (' || {length} || ' bytes)'"
        selected.append(f"CASE WHEN {length} <= {largest} THEN c{place} END")
        selected.append(f"CASE WHEN {length} > {largest} THEN {beginning} END")
    names = ", ".join(f"c{place}" for place in range(len(columns)))
    return f"SELECT {', '.join(selected)} FROM (\n{sql}\n) AS result({names})"  # noqa: S608 - a checked statement


def _merged(cursor: Any, columns: Sequence[tuple[str, int]]) -> Iterator[list[Any]]:
    """Yield rows with the beginning of a large value in its place."""
    for row in _one_by_one(cursor):
        values = iter(row)
        merged = []
        for _, kind in columns:
            value = next(values)
            if kind not in SMALL_TYPES and (beginning := next(values)) is not None:
                value = Beginning(beginning)
            merged.append(value)
        yield merged


class Trino:
    """A Trino connection over HTTP. Trino has no read-only mode, so its user should only have the right to read."""

    def __init__(self, source: SqlSource) -> None:
        try:
            import trino  # noqa: PLC0415 - only this engine needs it
        except ModuleNotFoundError:
            raise Degraded(TRINO_MISSING.format(source.name)) from None
        from requests.exceptions import RequestException  # noqa: PLC0415 - its own client raises it

        from analysis.sql.public_session import public_session  # noqa: PLC0415 - needs its HTTP client

        parts = urlsplit(source.url)
        catalog, _, schema = parts.path.strip("/").partition("/")
        password = source.secret(source.password_env) if source.password_env else ""
        auth = trino.auth.BasicAuthentication(parts.username or "", password) if password else None
        self._name = source.name
        self._private = (parts.hostname or "", password)
        self._error = trino.exceptions.Error
        self._unreachable = (trino.exceptions.TrinoConnectionError, RequestException)
        self._connection = trino.dbapi.connect(  # type: ignore[no-untyped-call]
            host=parts.hostname,
            port=parts.port or (443 if parts.scheme == "https" else 80),
            user=parts.username,
            catalog=catalog or None,
            schema=schema or None,
            http_scheme=parts.scheme,
            auth=auth,
            source="commonplace",
            session_properties={
                "query_max_run_time": f"{int(source.timeout_s * 1000)}ms",
                "query_max_execution_time": f"{int(source.timeout_s * 1000)}ms",
            },
            request_timeout=source.timeout_s,
            max_attempts=2,
            http_session=public_session() if source.must_be_public(parts.hostname or "") else None,
        )
        self._cursor = self._connection.cursor()

    def run(self, sql: str, bounds: Bounds) -> SqlResult:
        try:
            self._cursor.execute(sql)
            names = [column[0] for column in self._cursor.description or ()]
            return bounded(names, _one_by_one(self._cursor), bounds)
        except self._unreachable:
            raise UpstreamFailed(f"{self._name} can't be reached") from None
        except self._error as error:
            raise UpstreamFailed(error_message(error, self._private)) from None

    def cancel(self) -> None:
        self._cursor.cancel()

    def close(self) -> None:
        self._connection.close()


def _one_by_one(cursor: Any) -> Iterator[Any]:
    while (row := cursor.fetchone()) is not None:
        yield row


ENGINES: dict[str, Callable[[SqlSource], Engine]] = {"duckdb": DuckDB, "postgresql": PostgreSQL, "trino": Trino}
DIALECTS = {"duckdb": "duckdb", "postgresql": "postgres", "trino": "trino"}


def check_source(source: SqlSource) -> str:
    """Check the role of a PostgreSQL source. Return why it couldn't be checked, or "".

    Raises RoleRefused if the role may do more than read. The role is checked again when statements are run.
    """
    if source.engine != "postgresql":
        return ""
    try:
        PostgreSQL(source).close()
    except RoleRefused:
        raise
    except DomainError as error:
        return f"The role of {source.name} could not be checked, and is checked when it is used: {error.message}."
    return ""
