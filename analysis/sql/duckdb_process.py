"""A process that runs statements on DuckDB files, and reads other files, within limits of memory and temporary files.

Started by processes.py. Reads requests from a connection and answers each with a result or an error, both as JSON. Ends
when the other end of the connection is closed, even while a statement is running. Imports no Django, and has no
credentials in its environment.
"""

from __future__ import annotations

import json
import os
import queue
import re
import resource
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

import duckdb
import psutil

from analysis.sql import file_reading
from analysis.sql.values import Bounds, SqlResult, bounded, quoted

START = ":start"  # name of DuckDB's database before a file is attached; no file can have it
BASE_MB = 256  # memory of the interpreter and DuckDB's code, in addition to the statement's

RESERVED_MB = 2_048  # reserved for the code, the threads' stacks and the memory pools, in addition
LOOK_S = 0.02  # seconds between two looks at the memory in use
NICENESS = 10  # statements leave the processors to the server, which answers everybody


def main(descriptor: int, folder: str, memory_mb: int, disk_mb: int) -> None:
    # What is reserved is limited more widely than what is used, because DuckDB reserves much that it never uses.
    most_bytes = (memory_mb + BASE_MB) * 1_000_000
    reserved = (3 * memory_mb + RESERVED_MB) * 1_000_000
    with suppress(ValueError, OSError):  # not every system knows this limit; DuckDB's own holds everywhere
        resource.setrlimit(resource.RLIMIT_DATA, (reserved, reserved))
    threading.Thread(target=_end_if_large, args=(most_bytes,), daemon=True).start()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(NICENESS)
    connection = Connection(descriptor)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, requests, folder), daemon=True).start()
    while True:
        response = _response(json.loads(requests.get()), folder, memory_mb, disk_mb)
        # Memory that is free again mostly stays with the process, so one that has used much of it is replaced.
        response["is_large"] = psutil.Process().memory_info().rss > BASE_MB * 1_000_000
        connection.send_bytes(json.dumps(response).encode())


def _end_if_large(most_bytes: int) -> None:
    """End the process when it uses too much memory. The parent reports the signal as the limit of memory."""
    process = psutil.Process()
    while process.memory_info().rss <= most_bytes:
        time.sleep(LOOK_S)
    os.kill(process.pid, signal.SIGKILL)


def _receive(connection: Connection, requests: queue.SimpleQueue[bytes], folder: str) -> None:
    try:
        while True:
            requests.put(connection.recv_bytes())
    except (EOFError, OSError):
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)


def _response(request: dict[str, Any], folder: str, memory_mb: int, disk_mb: int) -> dict[str, Any]:
    is_open = False
    try:
        if "read" in request:
            return file_reading.response(request, folder, memory_mb, disk_mb)
        with closing(_opened(request["path"], folder, memory_mb, disk_mb)) as connection:
            is_open = True
            return asdict(_run(connection, request))
    except MemoryError:
        return {"limit": "memory"}
    except duckdb.OutOfMemoryException as error:
        return {"limit": "disk" if "max_temp_directory_size" in str(error) else "memory"}
    except duckdb.Error as error:
        return {"error": str(error), "is_open": is_open}


def _opened(path: str, folder: str, memory_mb: int, disk_mb: int) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB instance of its own, with the file attached read-only.

    Statements can't access other files or the network. While the instance is open, other programs can't write the file,
    but they can replace it.
    """
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{memory_mb}MB",
            "threads": "2",
            "python_enable_replacements": "false",  # a table name never means a variable of this program
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        },
    )
    run = connection.execute
    try:
        # DuckDB chooses the name of the attached database, which can be "memory" too. Afterwards no other database is
        # left that could be written.
        run(f'ATTACH \':memory:\' AS "{START}"; USE "{START}"; DETACH memory')
        run(f"ATTACH {quoted(path)} (TYPE duckdb, READ_ONLY)")
        row = run("SELECT database_name FROM duckdb_databases() WHERE NOT internal AND path IS NOT NULL").fetchone()
        run(f'USE "{row[0] if row else START}"; DETACH "{START}"')
        # In this order: DuckDB doesn't keep to the maximum if the folder is set after it.
        run(f"SET temp_directory = {quoted(folder)}; SET max_temp_directory_size = '{disk_mb}MB'")
        run("SET enable_external_access = false; SET lock_configuration = true")
    except BaseException:
        connection.close()
        raise
    return connection


def _run(connection: duckdb.DuckDBPyConnection, request: dict[str, Any]) -> SqlResult:
    bounds = Bounds(**request["bounds"])
    if not request["is_explain"] and (columns := _columns_with_intervals(connection, request["sql"])):
        relation = connection.sql(request["sql"])
        # A relation's rows can't be fetched one by one.
        return bounded(relation.columns, relation.project(columns).limit(bounds.rows + 1).fetchall(), bounds)
    cursor = connection.execute(request["sql"])
    return bounded([column[0] for column in cursor.description or ()], _rows(cursor), bounds)


def _rows(cursor: Any) -> Iterator[Any]:
    while (row := cursor.fetchone()) is not None:
        yield row


def _columns_with_intervals(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Return the columns of the result, with intervals as text, or "" if there are no intervals.

    Does not execute the statement.
    """
    # The driver would convert intervals to timedelta, which has no months.
    try:
        types = [str(kind) for kind in connection.sql(sql).types]
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error:
        return ""  # execute() will report the error, with its place in the statement
    readable_types = [_with_intervals_as_text(kind) for kind in types]
    if types == readable_types:
        return ""
    return ", ".join(f"CAST(#{place} AS {kind})" for place, kind in enumerate(readable_types, 1))


def _with_intervals_as_text(kind: str) -> str:
    """Replace INTERVAL by VARCHAR in a DuckDB type such as STRUCT(a INTERVAL, "interval" INTEGER)."""
    quoted = r"""("(?:[^"]|"")*"|'(?:[^']|'')*')"""
    return re.sub(rf"{quoted}|\bINTERVAL\b", lambda match: match[1] or "VARCHAR", kind)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
