"""Log lines as JSON. A module of its own, so that only those who want it load the library."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from pythonjsonlogger.json import JsonFormatter

from foundation.operations.masking import masked
from memory_project.operating.observability.logs import without_texts


class JSONFormatter(JsonFormatter):
    """Formats a record as one line: timestamp, level, logger, message, request_id, trace_id, exc_info."""

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        at = datetime.fromtimestamp(record.created, UTC)
        log_data |= {"timestamp": at.isoformat(timespec="milliseconds"), "level": record.levelname}
        log_data |= {"logger": record.name, "message": masked(record.getMessage()), "process": record.process}
        for name in ("request_id", "trace_id"):
            if value := getattr(record, name, ""):
                log_data[name] = value
        if record.exc_info:
            log_data["exc_info"] = masked(self.formatException(record.exc_info))

    def formatException(self, ei: Any) -> str:
        return without_texts(ei)
