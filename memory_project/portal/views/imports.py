"""Import of memories from a CSV file, with a preview of each row before anything is saved."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from analysis.sources.text_format import delimiter_of
from knowledge.catalog.name_resolution import urn_of
from memories import services
from memories.contract.errors import DomainError, Invalid
from memories.contract.operations import validate
from memories.identity.caller import Caller
from memories.identity.permissions import caller_from_request
from memories.models import MemoryRecord
from memories.operations import Remember
from memory_project.portal.error_labels import message_with_label

MAX_ROWS = 500
MAX_BYTES = 2_000_000
MAX_HEADER = 4_000  # characters of the first line in which the delimiter is detected
COLUMNS = ("content", "dimension", "category", "confidence", "visibility", "tags", "entities")
LISTS = {"tags": "tags", "entities": "entity_urns"}


@dataclass(frozen=True)
class Row:
    """One row of the file, with the fields of a memory or the reason why it can't be imported."""

    number: int
    fields: dict[str, Any] = field(default_factory=dict)
    fault: str = ""

    @property
    def content(self) -> str:
        return str(self.fields.get("content", ""))


@login_required
def import_memories(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    context: dict[str, Any] = {"columns": COLUMNS, "most": MAX_ROWS}
    if request.method == "POST":
        try:
            # The preview's form sends the text of the file again in “text”, so nothing is stored before the import.
            text = request.POST.get("text", "") or _text_of(request)
            rows = list(rows_of(text))
        except Invalid as error:
            return render(request, "portal/import.html", {**context, "error": message_with_label(error)}, status=400)
        if "confirm" in request.POST:
            return render(request, "portal/imported.html", _import(caller, rows))
        faulty = [row for row in rows if row.fault]
        context |= {"text": text, "rows": rows, "faulty": faulty, "good_count": len(rows) - len(faulty)}
    return render(request, "portal/import.html", context)


def _text_of(request: HttpRequest) -> str:
    file = request.FILES.get("file")
    if file is None:
        raise Invalid("is missing: choose a file", field="file")
    content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise Invalid("is too large", field="file", allowed=f"at most {MAX_BYTES:,} bytes and {MAX_ROWS} rows")
    try:
        return str(content, "utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid("is not encoded in UTF-8", field="file", allowed="CSV saved as UTF-8") from None


def rows_of(text: str) -> Iterator[Row]:
    """Parse a CSV file with a header, and validate each row as a Remember operation.

    Raises Invalid if the file has a wrong header or too many rows, or if one of its rows can't be read as CSV. If the
    values of a row are invalid, the row's `fault` is the error message.
    """
    reader: csv.DictReader[str]
    try:
        delimiter = delimiter_of([text[:MAX_HEADER].partition("\n")[0]], ",;\t")
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
        names = [(name or "").strip().lower() for name in reader.fieldnames or ()]
    except csv.Error as error:
        raise Invalid(f"can't be read as CSV ({error})", field="file") from None
    if "content" not in names:
        raise Invalid("has no column “content” in its first line", field="file", allowed=", ".join(COLUMNS))
    if unknown := [name for name in names if name not in COLUMNS]:
        raise Invalid(f"has the unknown column {unknown[0][:40]!r}", field="file", allowed=", ".join(COLUMNS))
    reader.fieldnames = names
    try:
        for number, line in enumerate(reader, 1):
            if number > MAX_ROWS:
                raise Invalid(
                    f"has more than {MAX_ROWS} rows", field="file", allowed=f"at most {MAX_ROWS} rows per file"
                )
            yield _row(number, line)
    except csv.Error as error:
        raise Invalid(f"can't be read as CSV ({error})", field="file") from None


def _row(number: int, line: dict[str, Any]) -> Row:
    if None in line:
        return Row(number, {"content": line.get("content") or ""}, "has more values than the first line has columns")
    fields: dict[str, Any] = {}
    try:
        for name, value in line.items():
            value = (value or "").strip()
            if name in LISTS:
                parts = [part.strip() for part in value.replace(";", ",").split(",") if part.strip()]
                fields[LISTS[name]] = [urn_of(part) for part in _urns(value)] if name == "entities" else parts
            elif value:
                fields[name] = value.lower() if name != "content" else value
        validate(Remember, fields, "")
    except DomainError as error:
        return Row(number, {**fields, "content": line.get("content") or ""}, message_with_label(error))
    return Row(number, fields)


def _urns(value: str) -> list[str]:
    # URNs contain commas, so only semicolons and spaces separate entities.
    return [part for part in value.replace(";", " ").split() if part]


def _import(caller: Caller, rows: list[Row]) -> dict[str, Any]:
    kept_records: list[MemoryRecord] = []
    known_count, refused = 0, []
    for row in rows:
        try:
            result = None if row.fault else services.remember(Remember.read({**row.fields}), caller=caller)
        except DomainError as error:
            refused.append(Row(row.number, row.fields, message_with_label(error)))
            continue
        if result is None:
            refused.append(row)
        elif result.existing:
            known_count += 1
        else:
            kept_records.append(result.record)
    return {"records": kept_records, "known_count": known_count, "refused": refused}
