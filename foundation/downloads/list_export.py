"""Export of a list as its filters show it: all rows, not only those of the page, as CSV or JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone

from foundation.downloads.csv_lines import csv_line
from foundation.downloads.streaming import streamed
from foundation.people.caller import Caller

PARAMETER = "export"
MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
CHUNK = 1_000  # rows that are fetched at a time


def is_wanted(request: HttpRequest) -> bool:
    return request.GET.get(PARAMETER) in MEDIA_TYPES


def list_export(
    request: HttpRequest, caller: Caller, rows: QuerySet[Any, Any], columns: Mapping[str, str], *, name: str
) -> HttpResponseBase | None:
    """Return the rows as a download if the address asks for one (?export=csv or jsonl), otherwise None.

    `columns` maps the title of each column to a lookup of the queryset's model.
    """
    return download(request, caller, rows, columns, name=name) if is_wanted(request) else None


def download(
    request: HttpRequest, caller: Caller, rows: QuerySet[Any, Any], columns: Mapping[str, str], *, name: str
) -> HttpResponseBase:
    format = request.GET[PARAMETER]
    values = rows.values_list(*columns.values()).iterator(chunk_size=CHUNK)
    lines = _csv_lines(list(columns), values) if format == "csv" else _json_lines(list(columns), values)
    file_name = f"{name}-{timezone.now():%Y-%m-%d}.{format}"
    return streamed(request, caller, lines, file_name=file_name, media_type=MEDIA_TYPES[format])


def _csv_lines(titles: Sequence[str], rows: Iterator[tuple[Any, ...]]) -> Iterator[bytes]:
    yield csv_line(titles).encode()
    for row in rows:
        yield csv_line(map(_cell, row)).encode()


def _cell(value: Any) -> Any:
    value = _plain(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return value


def _json_lines(titles: Sequence[str], rows: Iterator[tuple[Any, ...]]) -> Iterator[bytes]:
    for row in rows:
        document = dict(zip(titles, map(_plain, row), strict=True))
        yield json.dumps(document, ensure_ascii=False, default=str).encode() + b"\n"


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return value.hex
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
