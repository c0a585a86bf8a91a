"""Reading of a local file by DuckDB: its columns and leading rows.

Runs in the processes of duckdb_process.py and imports no Django. The file's content may be hostile.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import islice
from typing import Any

import duckdb

from analysis.sql.values import Bounds, bounded, quoted

MAX_TYPE = 60  # maximum number of characters of the name of a type
COLUMN_BYTES = 100  # of a column in the response, in addition to its name
# The path is a parameter, and all else is constant: nothing of a key or of a file becomes part of a statement.
FUNCTIONS = {
    "csv": "read_csv(?, ignore_errors = true, null_padding = true, strict_mode = false)",
    "tsv": r"read_csv(?, ignore_errors = true, null_padding = true, strict_mode = false, delim = '\t')",
    "json": "read_json(?, format = 'newline_delimited', ignore_errors = true)",
    "parquet": "read_parquet(?)",
}


def response(request: dict[str, Any], folder: str, memory_mb: int, disk_mb: int) -> dict[str, Any]:
    """Return the result of one of the readings below, by the name in `request["read"]`."""
    read = {"layout": _layout, "rows": _rows}[request["read"]]
    with closing(_opened(request["path"], folder, memory_mb, disk_mb)) as connection:
        return read(connection, request)


def _opened(path: str, folder: str, memory_mb: int, disk_mb: int) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB instance that can read this file and nothing else."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{memory_mb}MB",
            "threads": "1",  # several threads would read further row groups, which are missing
            "python_enable_replacements": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        },
    )
    try:
        connection.execute(f"SET temp_directory = {quoted(folder)}; SET max_temp_directory_size = '{disk_mb}MB'")
        connection.execute(f"SET allowed_paths = [{quoted(path)}]")
        connection.execute("SET enable_external_access = false; SET lock_configuration = true")
    except BaseException:
        connection.close()
        raise
    return connection


def _rows(connection: duckdb.DuckDBPyConnection, request: dict[str, Any]) -> dict[str, Any]:
    """Return a Result with the types of its columns as `types`. `request["columns"]` are their places, or None."""
    bounds = Bounds(**request["bounds"])
    path = request["path"]
    relation = connection.sql(f"SELECT * FROM {FUNCTIONS[request['format']]}", params=[path])  # noqa: S608 - a constant
    places = range(len(relation.columns)) if request["columns"] is None else request["columns"]
    chosen = _fitting([(place, relation.columns[place], str(relation.types[place])) for place in places], bounds.bytes)
    if not chosen:
        return {"columns": [], "rows": [], "types": [], "columns_left_out": len(relation.columns)}
    values = [f"CAST(#{place + 1} AS VARCHAR)" if kind == "INTERVAL" else f"#{place + 1}" for place, _, kind in chosen]
    projected = relation.project(", ".join(values)).limit(request["limit"])
    result = bounded([name for _, name, _ in chosen], projected.fetchall(), bounds)
    types = [_cut(kind) for _, _, kind in chosen[: len(result.columns)]]
    left_out = len(relation.columns) - len(result.columns)
    return {**asdict(result), "types": types, "columns_left_out": left_out}


def _fitting(columns: Sequence[tuple[int, str, str]], most_bytes: int) -> list[tuple[int, str, str]]:
    """Return the leading columns whose names and types take at most half of the bytes."""
    room = most_bytes // 2
    fitting = []
    for column in columns:
        room -= len(column[1].encode()) + COLUMN_BYTES
        if room < 0:
            break
        fitting.append(column)
    return fitting


def _layout(connection: duckdb.DuckDBPyConnection, request: dict[str, Any]) -> dict[str, Any]:
    """Return what the footer of a Parquet file says: number of rows, columns, and the parts of the first row group.

    `parts` has a list for each column: the first byte and the number of bytes of each of its leaves.
    """
    path = [request["path"]]
    file = connection.execute("SELECT num_rows, num_row_groups FROM parquet_file_metadata(?)", path).fetchone()
    relation = connection.sql("SELECT * FROM read_parquet(?)", params=path)
    schema = connection.execute("SELECT num_children FROM parquet_schema(?)", path).fetchall()
    leaves = connection.execute(
        "SELECT row_group_num_rows, dictionary_page_offset, data_page_offset, total_compressed_size "
        "FROM parquet_metadata(?) WHERE row_group_id = 0 ORDER BY column_id",
        path,
    ).fetchall()
    spans = iter([_span(dictionary, data, size) for _, dictionary, data, size in leaves])
    parts = [list(islice(spans, count)) for count in _leaf_counts([children or 0 for (children,) in schema])]
    return {
        "num_rows": file[0] if file else 0,
        "first_rows": leaves[0][0] if leaves else 0,
        "columns": relation.columns,
        "types": [_cut(str(kind)) for kind in relation.types],
        "parts": parts,
    }


def _span(dictionary: int | None, data: int, size: int) -> tuple[int, int]:
    # a column without a dictionary has no offset of it, or 0
    return (min(dictionary, data) if dictionary else data), size


def _leaf_counts(children: Sequence[int]) -> list[int]:
    """Return the number of leaves of each column, from the numbers of children in the order of the schema."""
    elements = iter(children)
    root = next(elements, 0)
    counts = []
    for _ in range(root):
        pending = 1
        leaves = 0
        while pending:
            pending -= 1
            below = next(elements, 0)
            pending += below
            leaves += not below
        counts.append(leaves)
    return counts


def _cut(kind: str) -> str:
    return kind if len(kind) <= MAX_TYPE else kind[: MAX_TYPE - 1] + "…"
