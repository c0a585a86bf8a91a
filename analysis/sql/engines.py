"""Database engines of query_sql, each with its own DB-API driver."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Protocol
from urllib.parse import urlsplit
from uuid import uuid4

from django.conf import settings

from analysis.sources.interface import UpstreamFailed
from analysis.sql.declaration import SqlSource
from memories.contract.errors import Degraded

Rows = tuple[list[str], list[tuple[Any, ...]]]

# Limits of one statement. Intermediate results that exceed the memory are written to a temporary folder.
DUCKDB_CONFIG: dict[str, Any] = {"memory_limit": "512MB", "max_temp_directory_size": "4GB", "threads": "2"}
START = ":start"  # name of DuckDB's database before a file is attached; no file can have it


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
    """A DuckDB instance of its own for one statement, with the file attached read-only.

    Queries can't access other files or the network. While the instance is open, other programs can't write the file,
    but they can replace it.
    """

    def __init__(self, source: SqlSource) -> None:
        import duckdb  # noqa: PLC0415 - only this engine needs it

        path = Path(settings.ANALYSIS_FILES) / source.database
        if not path.is_file():
            raise Degraded(f"the source {source.name!r} needs the file {source.database} below ANALYSIS_FILES")
        self._error = duckdb.Error
        self._lock = _lock_against_writers(path, source.name)
        try:
            # duckdb.connect(path) would share one instance among all statements on the file: one statement that needs
            # much memory would make others fail, and a replaced file would not be noticed.
            self._connection = duckdb.connect(":memory:", config=DUCKDB_CONFIG)
            try:
                self._attach(path)
            except duckdb.Error:
                self._connection.close()
                raise
        except duckdb.Error as error:
            os.close(self._lock)
            raise UpstreamFailed(f"{source.name} can't be opened: {_first_line(error)}") from None

    def _attach(self, path: Path) -> None:
        # DuckDB chooses the name of the attached database, which can be "memory" too. Afterwards no other database is
        # left that could be written.
        run = self._connection.execute
        run(f'ATTACH \':memory:\' AS "{START}"; USE "{START}"; DETACH memory')
        run(f"ATTACH {_quoted(str(path))} (TYPE duckdb, READ_ONLY)")
        row = run("SELECT database_name FROM duckdb_databases() WHERE NOT internal AND path IS NOT NULL").fetchone()
        run(f'USE "{row[0] if row else START}"; DETACH "{START}"')
        # Statements must not share the folder, because the names of their files would be the same.
        run(f"SET temp_directory = {_quoted(str(Path(gettempdir()) / f'query_sql-{uuid4().hex}'))}")
        run("SET enable_external_access = false; SET lock_configuration = true")

    def run(self, sql: str, limit: int) -> Rows:
        try:
            cursor = self._connection.execute(sql)
            names = [column[0] for column in cursor.description or ()]
            return names, cursor.fetchmany(limit)
        except self._error as error:
            raise UpstreamFailed(_first_line(error)) from None

    def cancel(self) -> None:
        with suppress(self._error):  # the statement has ended, and its connection is closed
            self._connection.interrupt()

    def close(self) -> None:
        try:
            self._connection.close()
        finally:
            os.close(self._lock)


def _lock_against_writers(path: Path, name: str) -> int:
    """Return a descriptor of the file, which can't be opened for writing until the descriptor is closed.

    Raises UpstreamFailed if another program has opened the file for writing.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise UpstreamFailed(f"{name} can't be opened: {error.strerror}") from None
    # DuckDB's own lock belongs to the whole process, which loses it as soon as any of its instances closes the file.
    # Only Linux has locks of a descriptor.
    if sys.platform == "linux":
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
        except BlockingIOError:
            os.close(descriptor)
            message = f"{name} is being written by another program: try again when it has finished"
            raise UpstreamFailed(message) from None
        except OSError:
            pass  # a file system without such locks
    return descriptor


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


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
