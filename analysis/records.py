"""Writing a page of records: in bulk, with everything that a page may hold."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import connection

from analysis.models import Session
from analysis.sources.declaration import Resource
from memories.contract.errors import Invalid

Row = dict[str, Any]
SKIPPED = ("resource_type",)
NO_SEGMENT = ("", ".", "..")  # ids that are no segment of a path: kept, and never acted on
PARENTS = "_parent_ids"

# One statement a page, however many rows; the last of two rows with one id wins. A child of several parents keeps
# them all. The snapshot's time is that of this write.
UPSERT = """
    INSERT INTO ingested_records (session_id, model, record_id, has_id, data, ingested_at, expires_at)
    SELECT DISTINCT ON (given.record_id) %s, %s, given.record_id, given.has_id, given.data::jsonb, %s, %s
    FROM unnest(%s::text[], %s::boolean[], %s::text[]) WITH ORDINALITY AS given(record_id, has_id, data, place)
    ORDER BY given.record_id, given.place DESC
    ON CONFLICT (session_id, model, record_id) DO UPDATE SET
        data = CASE WHEN excluded.data ? '_parent_ids' THEN jsonb_set(excluded.data, '{_parent_ids}', (
                   SELECT jsonb_agg(DISTINCT parent) FROM jsonb_array_elements(
                       coalesce(ingested_records.data->'_parent_ids', '[]') || (excluded.data->'_parent_ids')
                   ) AS parent))
               ELSE excluded.data END,
        ingested_at = excluded.ingested_at, expires_at = excluded.expires_at
"""


def store(
    session: Session,
    model: str,
    rows: Sequence[Row],
    id_field: str,
    now: datetime,
    expires_at: datetime,
    origin: str = "",
) -> int:
    """Writes or refreshes the rows; returns how many different records they were. `origin` says which page they are:
    rows without id are told apart by it and by their place, so that equal ones stay several."""
    ids, has_ids, texts = [], [], []
    for index, row in enumerate(rows):
        text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
        record_id = row.get(id_field)
        is_named = record_id is not None and not isinstance(record_id, dict | list)
        ids.append(str(record_id) if is_named else "~" + hashlib.sha256(f"{origin}:{index}".encode()).hexdigest())
        has_ids.append(is_named and ids[-1] not in NO_SEGMENT)
        texts.append(text)
    if too_long := next((key for key in ids if len(key) > 500), None):
        raise Invalid(f"an id of {len(too_long)} characters", field=id_field, allowed="at most 500")
    if rows:
        with connection.cursor() as cursor:
            cursor.execute(UPSERT, [session.pk, model, now, expires_at, ids, has_ids, texts])
    return len(set(ids))


def clean(value: Any) -> Any:
    """What jsonb can hold: no NUL, no half surrogate pairs, no NaN."""
    if isinstance(value, str):
        return value if value.isascii() and "\x00" not in value else _storable(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {clean(str(key)): clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _storable(text: str) -> str:
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def flattened(row: Row, resource: Resource) -> Row:
    """Expanded associations as `{association}_{field}`, with their ids: `author: {id, name}` gives `author_id` and
    `author_name`."""
    flat = dict(row)
    for name, association in resource.associations.items():
        inner = flat.get(name)
        if association.kind != "belongs_to" or not isinstance(inner, dict):
            continue
        del flat[name]
        for key, value in inner.items():
            if not isinstance(value, dict | list) and key not in SKIPPED and not key.endswith("_link"):
                flat.setdefault(f"{name}_{key}", value)
    return flat


def projected(row: Row, fields: Sequence[str], resource: Resource) -> Row:
    """The asked fields; the id always, and `{association}_id` when any field of that association is asked for. A
    declared association stands for all of its fields."""
    if not fields:
        return row
    whole = [f"{name}_" for name in resource.associations if name in fields]
    columns = {*fields, resource.id_field}
    names = set(resource.associations) or {key.removesuffix("_id") for key in row if key.endswith("_id")}
    columns |= {f"{name}_id" for name in names if any(field.startswith(f"{name}_") for field in fields)}
    prefixes = ("_parent", *whole)
    return {key: value for key, value in row.items() if key in columns or key.startswith(prefixes)}
