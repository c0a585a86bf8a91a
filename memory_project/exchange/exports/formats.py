"""The formats of an export. Each writer holds one row, or a few hundred, in memory at a time."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO

from django.utils.translation import gettext_noop

from foundation.downloads.csv_lines import csv_line
from foundation.operations.errors import check_choice
from memories.portability import Values
from memory_project.exchange.exports import markdown, parquet

LINES = "export.jsonl"  # name of the lines in a zip file
README = """\
This is an export of Commonplace. The file export.jsonl has one JSON object a line: first what was exported, then the
rows, each with its kind, and last the number of rows of each kind. If the last line is missing, the file was cut.

To take the rows over into an installation: commonplace import export.zip --as you@example.org
"""


@dataclass(frozen=True)
class ExportFormat:
    name: str
    title: str
    extension: str
    media_type: str
    write: Callable[[Iterator[Values], IO[bytes]], None]
    kinds: tuple[str, ...] = ()  # the kinds that it can hold; all if it is empty


def as_line(row: Values) -> bytes:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def write_lines(rows: Iterator[Values], out: IO[bytes]) -> None:
    for row in rows:
        out.write(as_line(row))


def write_zip(rows: Iterator[Values], out: IO[bytes]) -> None:
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("README.txt", README)
        with archive.open(LINES, "w", force_zip64=True) as member:
            write_lines(rows, member)


def write_csv(rows: Iterator[Values], out: IO[bytes]) -> None:
    columns = parquet.columns()
    out.write(csv_line(columns).encode())
    for row in rows:
        if row["kind"] == "memory":
            out.write(csv_line(row[name] for name in columns).encode())


FORMATS = {
    entry.name: entry
    for entry in (
        ExportFormat("jsonl", gettext_noop("JSON lines"), "jsonl", "application/x-ndjson", write_lines),
        ExportFormat("zip", gettext_noop("JSON lines, zipped"), "zip", "application/zip", write_zip),
        ExportFormat(
            "markdown",
            gettext_noop("Markdown notes, zipped"),
            "zip",
            "application/zip",
            markdown.write_markdown,
            ("memory",),
        ),
        ExportFormat(
            "csv", gettext_noop("CSV of the memories"), "csv", "text/csv; charset=utf-8", write_csv, ("memory",)
        ),
        ExportFormat(
            "parquet",
            gettext_noop("Parquet of the memories"),
            "parquet",
            "application/vnd.apache.parquet",
            parquet.write_parquet,
            ("memory",),
        ),
    )
}


def export_format(name: str) -> ExportFormat:
    return FORMATS[check_choice("format", name, FORMATS)]
