"""Database engines of query_sql, each with its own DB-API driver."""

from __future__ import annotations

import fcntl
import os
import re
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
from analysis.sql.messages import error_message
from analysis.sql.statements import is_explain, without_semicolon
from memories.contract.errors import Degraded

Rows = tuple[list[str], list[tuple[Any, ...]]]

# Limits of one statement. Intermediate results that exceed the memory are written to a temporary folder.
DUCKDB_CONFIG: dict[str, Any] = {
    "memory_limit": "512MB",
    "max_temp_directory_size": "4GB",
    "threads": "2",
    "python_enable_replacements": "false",  # a table name never means a variable of this program
}
START = ":start"  # name of DuckDB's database before a file is attached; no file can have it
# The name of a PostgreSQL cursor, and what its declaration adds to an error's quotation of the statement.
CURSOR = "query_sql"
DECLARED = re.compile(rf'(LINE 1: )DECLARE "{CURSOR}" CURSOR FOR (.*\n) {{31}}')


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
        self._error, self._interrupted = duckdb.Error, duckdb.InterruptException
        self._private = (str(path), str(path.resolve()))
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
            message = error_message(error, self._private)
            raise UpstreamFailed(f"{source.name} can't be opened: {message}") from None

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
            if not is_explain(sql, DIALECTS["duckdb"]) and (columns := self._columns_with_intervals(sql)):
                relation = self._connection.sql(without_semicolon(sql, DIALECTS["duckdb"]))
                return relation.columns, relation.project(columns).limit(limit).fetchall()
            cursor = self._connection.execute(sql)
            return [column[0] for column in cursor.description or ()], cursor.fetchmany(limit)
        except self._error as error:
            raise UpstreamFailed(error_message(error, self._private)) from None

    def _columns_with_intervals(self, sql: str) -> str:
        """Return the columns of the result, with intervals as text, or "" if there are no intervals.

        Does not execute the statement.
        """
        # The driver would convert intervals to timedelta, which has no months.
        try:
            types = [str(kind) for kind in self._connection.sql(sql).types]
        except self._interrupted:
            raise
        except self._error:
            return ""  # execute() will report the error, with its place in the statement
        readable_types = [_with_intervals_as_text(kind) for kind in types]
        if types == readable_types:
            return ""
        return ", ".join(f"CAST(#{place} AS {kind})" for place, kind in enumerate(readable_types, 1))

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


def _with_intervals_as_text(kind: str) -> str:
    """Replace INTERVAL by VARCHAR in a DuckDB type such as STRUCT(a INTERVAL, "interval" INTEGER)."""
    quoted = r"""("(?:[^"]|"")*"|'(?:[^']|'')*')"""
    return re.sub(rf"{quoted}|\bINTERVAL\b", lambda match: match[1] or "VARCHAR", kind)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class PostgreSQL:
    """A PostgreSQL connection with read-only transactions and a statement timeout."""

    def __init__(self, source: SqlSource) -> None:
        import psycopg  # noqa: PLC0415 - beside the others
        from psycopg.types.string import TextLoader  # noqa: PLC0415

        self._error = psycopg.Error
        options = f"-c default_transaction_read_only=on -c statement_timeout={int(source.timeout_s * 1000)}"
        try:
            self._connection = psycopg.connect(source.secret(source.dsn_env), options=options, connect_timeout=10)
            self._connection.read_only = True
            info = self._connection.info
            self._private = (info.host, info.hostaddr, info.password)
            self._connection.adapters.register_loader("interval", TextLoader)  # timedelta has no months
        except psycopg.Error:
            raise UpstreamFailed(f"{source.name} can't be reached with {source.dsn_env}") from None

    def run(self, sql: str, limit: int) -> Rows:
        try:
            # A named cursor does not read the whole result, but can't be declared for EXPLAIN.
            name = "" if is_explain(sql, DIALECTS["postgresql"]) else CURSOR
            with closing(self._connection.cursor(name)) as cursor:
                cursor.execute(sql.encode())
                rows = cursor.fetchmany(limit)
                return [column.name for column in cursor.description or ()], rows
        except self._error as error:
            raise UpstreamFailed(DECLARED.sub(r"\1\2", error_message(error, self._private))) from None
        finally:
            if not self._connection.closed:
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

        from analysis.sql.public_session import public_session  # noqa: PLC0415 - needs its HTTP client

        parts = urlsplit(source.url)
        catalog, _, schema = parts.path.strip("/").partition("/")
        password = source.secret(source.password_env) if source.password_env else ""
        auth = trino.auth.BasicAuthentication(parts.username or "", password) if password else None
        self._name, self._private = source.name, (parts.hostname or "", password)
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
            request_timeout=source.timeout_s,
            max_attempts=2,
            http_session=public_session() if source.must_be_public(parts.hostname or "") else None,
        )
        self._cursor = self._connection.cursor()

    def run(self, sql: str, limit: int) -> Rows:
        try:
            self._cursor.execute(sql)
            rows = [tuple(row) for row in self._cursor.fetchmany(limit)]
            return [column[0] for column in self._cursor.description or ()], rows
        except self._unreachable:
            raise UpstreamFailed(f"{self._name} can't be reached") from None
        except self._error as error:
            raise UpstreamFailed(error_message(error, self._private)) from None

    def cancel(self) -> None:
        self._cursor.cancel()

    def close(self) -> None:
        self._connection.close()


ENGINES: dict[str, Callable[[SqlSource], Engine]] = {"duckdb": DuckDB, "postgresql": PostgreSQL, "trino": Trino}
DIALECTS = {"duckdb": "duckdb", "postgresql": "postgres", "trino": "trino"}
