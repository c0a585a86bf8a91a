"""Export of records as CSV or JSON lines, through a signed URL that only the user who requested it can open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from django.core import signing
from django.db import connection, transaction

from analysis import operations, sessions
from analysis.querying.filters import field_name
from analysis.querying.query import QueryScope, documents, projected, require_fields, run, scope_for
from foundation.downloads.csv_lines import csv_line
from foundation.operations.errors import Invalid, NotFound
from foundation.people.caller import Caller

MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
VALID_S = 3600
CHUNK = 2_000
MAX_COLUMNS = 200
SALT = "analysis.export"
KEYS = "SELECT DISTINCT key FROM (SELECT data {scope}) AS rows, jsonb_object_keys(data) AS key ORDER BY key"


@dataclass(frozen=True)
class AnalysisExport:
    scope: QueryScope  # records of one of the caller's sessions
    format: str
    fields: list[str]
    total: int


def prepare(caller: Caller, operation: operations.Export) -> tuple[AnalysisExport, str]:
    """Return the export and its token. Only the caller can use the token, for VALID_S seconds."""
    session = sessions.get_session(caller, operation.analysis_id)
    selection = scope_for(caller, session, operation.model, operation.where)
    names = [field_name(name, "fields") for name in operation.fields]
    require_fields(selection, names, "fields")
    base, params = selection.sql()
    ((total,),) = run(f"SELECT count(*) {base}", params)
    payload = {
        "session": session.pk,
        "model": selection.model,
        "where": operation.where or {},
        "format": operation.format,
        "fields": names,
    }
    return AnalysisExport(selection, operation.format, names, total), signing.dumps(payload, salt=SALT, compress=True)


def open_export(caller: Caller, token: str) -> AnalysisExport:
    """Return the export that a token describes, without its total.

    Raises Invalid if the token is not valid or has expired, NotFound if the caller has no such session, and Forbidden
    if the caller may no longer read the model's source.
    """
    try:
        payload = signing.loads(token, salt=SALT, max_age=VALID_S)
    except signing.BadSignature:
        raise Invalid("is not a valid export address, or is older than an hour", field="export") from None
    session = sessions.by_key(caller, payload["session"])
    if session is None:
        raise NotFound("no such export of yours", field="export")
    selection = scope_for(caller, session, payload["model"], payload["where"])
    return AnalysisExport(selection, payload["format"], payload["fields"], 0)


def lines(export: AnalysisExport) -> Iterator[str]:
    names = export.fields or _columns(export.scope)
    base, params = export.scope.sql()
    data, projection = projected(export.fields)
    if export.format == "csv":
        yield csv_line(names)
    with transaction.atomic(), connection.chunked_cursor() as cursor:
        cursor.execute(f"SELECT {data} {base} ORDER BY id", [*projection, *params])
        while rows := cursor.fetchmany(CHUNK):
            if export.format == "csv":
                yield "".join(csv_line(map(row.get, names)) for row in documents(rows))
            else:
                chosen_rows = [{n: row[n] for n in export.fields or row if n in row} for row in documents(rows)]
                yield "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in chosen_rows)


def _columns(selection: QueryScope) -> list[str]:
    base, params = selection.sql()
    rows = run(KEYS.format(scope=base), params)
    return [name for (name,) in rows][:MAX_COLUMNS]
