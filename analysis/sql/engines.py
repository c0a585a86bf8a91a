"""Database engines of query_sql, each with its own DB-API driver."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from django.conf import settings

from analysis.sources.interface import UpstreamFailed
from analysis.sql.declaration import SqlSource
from memories.contract.errors import Degraded

Rows = tuple[list[str], list[tuple[Any, ...]]]


class Engine(Protocol):
    """A connection to a warehouse.

    `run` raises UpstreamFailed if the query fails. `cancel` may be called from another thread.
    """

    def run(self, sql: str, limit: int) -> Rows:
        """Return the column names, and at most `limit` rows."""
        ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...


class DuckDB:
    """A connection to a DuckDB file, which is opened read-only. Queries can't access other files or the network."""

    def __init__(self, source: SqlSource) -> None:
        import duckdb  # noqa: PLC0415 - only this engine needs it

        path = Path(settings.ANALYSIS_FILES) / source.database
        if not path.is_file():
            raise Degraded(f"the source {source.name!r} needs the file {source.database} below ANALYSIS_FILES")
        config: dict[str, Any] = {"enable_external_access": "false", "memory_limit": "1GB", "threads": "2"}
        self._error = duckdb.Error
        try:
            self._connection = duckdb.connect(str(path), read_only=True, config=config)
            self._connection.execute("SET lock_configuration = true")
        except duckdb.Error as error:
            raise UpstreamFailed(f"{source.name} can't be opened: {_first_line(error)}") from None

    def run(self, sql: str, limit: int) -> Rows:
        try:
            cursor = self._connection.execute(sql)
            names = [column[0] for column in cursor.description or ()]
            return names, cursor.fetchmany(limit)
        except self._error as error:
            raise UpstreamFailed(_first_line(error)) from None

    def cancel(self) -> None:
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()


class PostgreSQL:
    """A PostgreSQL connection with read-only transactions and a statement timeout."""

    def __init__(self, source: SqlSource) -> None:
        import psycopg  # noqa: PLC0415 - beside the others

        self._error = psycopg.Error
        options = f"-c default_transaction_read_only=on -c statement_timeout={int(source.timeout_s * 1000)}"
        try:
            self._connection = psycopg.connect(source.secret(source.dsn_env), options=options, connect_timeout=10)
            self._connection.read_only = True
        except psycopg.Error:
            raise UpstreamFailed(f"{source.name} can't be reached with {source.dsn_env}") from None

    def run(self, sql: str, limit: int) -> Rows:
        try:
            with closing(self._connection.cursor(name="query_sql")) as cursor:
                cursor.execute(sql.encode())
                rows = cursor.fetchmany(limit)
                return [column.name for column in cursor.description or ()], rows
        except self._error as error:
            raise UpstreamFailed(_first_line(error)) from None
        finally:
            self._connection.rollback()

    def cancel(self) -> None:
        self._connection.cancel_safe(timeout=2.0)

    def close(self) -> None:
        self._connection.close()


class Trino:
    """A Trino connection over HTTP. Trino has no read-only mode, so its user should only have the right to read."""

    def __init__(self, source: SqlSource) -> None:
        import trino  # noqa: PLC0415 - only this engine needs it
        from requests.exceptions import RequestException  # noqa: PLC0415 - its own client raises it

        parts = urlsplit(source.url)
        catalog, _, schema = parts.path.strip("/").partition("/")
        password = source.secret(source.password_env) if source.password_env else ""
        auth = trino.auth.BasicAuthentication(parts.username or "", password) if password else None
        self._error: tuple[type[Exception], ...] = (trino.exceptions.Error, RequestException)
        self._connection = trino.dbapi.connect(  # type: ignore[no-untyped-call]
            host=parts.hostname,
            port=parts.port or (443 if parts.scheme == "https" else 80),
            user=parts.username,
            catalog=catalog or None,
            schema=schema or None,
            http_scheme=parts.scheme,
            auth=auth,
            source="commonplace",
            request_timeout=source.timeout_s,
            max_attempts=2,
        )
        self._cursor = self._connection.cursor()

    def run(self, sql: str, limit: int) -> Rows:
        try:
            self._cursor.execute(sql)
            rows = [tuple(row) for row in self._cursor.fetchmany(limit)]
            return [column[0] for column in self._cursor.description or ()], rows
        except self._error as error:
            raise UpstreamFailed(_first_line(error)) from None

    def cancel(self) -> None:
        self._cursor.cancel()

    def close(self) -> None:
        self._connection.close()


ENGINES: dict[str, Callable[[SqlSource], Engine]] = {"duckdb": DuckDB, "postgresql": PostgreSQL, "trino": Trino}
DIALECTS = {"duckdb": "duckdb", "postgresql": "postgres", "trino": "trino"}


def _first_line(error: Exception) -> str:
    text = str(getattr(error, "message", "") or error).strip()
    return (text.splitlines() or [type(error).__name__])[0][:500]
