"""A process of DuckDB that reads local files with parts of objects (see analysis/sql/file_reading.py)."""

from __future__ import annotations

from typing import Any

from analysis.sources.interface import UpstreamFailed
from analysis.sources.messages import MAX_MESSAGE, without_private
from analysis.sql.engines import DuckDBProcess

LINES = 2  # of an error; further ones propose options that callers don't have


class FileProcess(DuckDBProcess):
    limit_messages = {
        "memory": "reading the object needs more than {0} MB of memory (ANALYSIS_SQL_MEMORY_MB): read fewer columns",
        "disk": "reading the object needs more than {1} MB of temporary files (ANALYSIS_SQL_DISK_MB)",
    }

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        response = super().ask(request)
        if "error" in response:
            lines = response["error"].splitlines()[:LINES]
            message = without_private(" ".join(lines), (request["path"],))[:MAX_MESSAGE]
            raise UpstreamFailed(f"DuckDB can't read the object: {message}")
        return response
