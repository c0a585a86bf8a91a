"""Log lines with the id of their request, as text or JSON, without secrets and texts that could quote a memory."""

from __future__ import annotations

import logging
import re
import time
import traceback
from typing import Any

from django.conf import settings

from foundation.operations.masking import masked
from memory_project.operating.observability import request_context, tracing

# Exceptions whose messages Python makes of names in the code and of addresses. Others may quote what they work on, such
# as the row that a database refuses.
TELLING = (OSError, ImportError, AttributeError, NameError, RecursionError, MemoryError, NotImplementedError)
INTERVAL_S = 10.0  # at least, between two messages of a kind
QUEUE = "django-q"  # this logger logs the traceback of a failed task as part of its message
PLACE = re.compile(r'^\s+File "[^"\n]+", line \d+, in [\w<>]+$')
NAME_OF_ERROR = re.compile(r"^[A-Za-z_][\w.]*(?=:|$)")


class WithoutTracebackOfRefusals(logging.Filter):
    """Leaves out tracebacks of answers below 500: a refusal is no defect, and its line names the address."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.ERROR:
            record.exc_info = record.exc_text = None
        return True


class Seldom(logging.Filter):
    """Lets a kind of message pass once in INTERVAL_S."""

    def __init__(self) -> None:
        super().__init__()
        self.passed_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = str(record.msg)  # without its arguments
        now = time.monotonic()
        if kind in self.passed_at and now < self.passed_at[kind] + INTERVAL_S:
            return False
        self.passed_at[kind] = now
        return True


class WithRequest(logging.Filter):
    """Adds the ids of the current request and trace to each line."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = request_context.request_id()
        record.trace_id = tracing.trace_id()
        if record.name == QUEUE and not settings.DEBUG and "Traceback (most recent call last)" in record.getMessage():
            record.msg = failed_task(record.getMessage())
            record.args = ()
        return True


class LineFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = masked(super().format(record))
        request_id = getattr(record, "request_id", "")
        first, line_break, rest = text.partition("\n")
        return f"{first} [request {request_id}]{line_break}{rest}" if request_id else text

    def formatException(self, ei: Any) -> str:
        return without_texts(ei)


def without_texts(exc_info: Any) -> str:
    """Return a traceback with the code's lines and the types of exceptions, and with the messages of TELLING only."""
    error = exc_info[1]
    if error is None:
        return ""
    if settings.DEBUG:
        return "".join(traceback.format_exception(error))
    parts: list[str] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        frames = traceback.format_list(traceback.extract_tb(error.__traceback__))
        parts.insert(0, "".join(["Traceback (most recent call last):\n", *frames, _last_line(error)]))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(parts)


def _last_line(error: BaseException) -> str:
    module = type(error).__module__
    name = type(error).__qualname__
    if module == "builtins":  # the types of libraries that derive from OSError may quote a URL
        return f"{name}: {error}" if isinstance(error, TELLING) else name
    code = getattr(error, "sqlstate", None)
    return f"{module}.{name} (SQLSTATE {code})" if code else f"{module}.{name}"


def failed_task(message: str) -> str:
    """Return the message about a failed task with the places and types of its errors, without their messages."""
    head, _, report = message.partition(" - ")
    lines = report.splitlines()
    kept = [line for line in lines if PLACE.match(line)]
    last = next((match[0] for line in reversed(lines) if (match := NAME_OF_ERROR.match(line))), "")
    return "\n".join([head, *kept, last])
