"""Cleaning, flattening and bulk storage of ingested records."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from analysis.models import Session
from analysis.sources.declaration import Resource

Row = dict[str, Any]
SKIPPED = ("resource_type",)  # fields of an association that `flattened` leaves out
# Ids that can't be a segment of a URL path. Records with such an id are stored, but no action changes them.
NO_SEGMENT = ("", ".", "..")
PARENTS = "_parent_ids"
MAX_ID = 500

# Writes a page in one statement. New records get ascending ids in the order in which they arrived. A child of several
# parents keeps the ids of all its parents. `ingested_at` is the time of this write.
UPSERT = """
    INSERT INTO ingested_records (session_id, model, record_id, has_id, data, ingested_at, expires_at)
    SELECT %s, %s, given.record_id, given.has_id, given.data::jsonb, %s, %s
    FROM unnest(%s::text[], %s::boolean[], string_to_array(%s, E'\\n'))
        WITH ORDINALITY AS given(record_id, has_id, data, place)
    ORDER BY given.place
    ON CONFLICT (session_id, model, record_id) DO UPDATE SET
        data = CASE WHEN excluded.data ? '_parent_ids' THEN jsonb_set(excluded.data, '{_parent_ids}', (
                   SELECT jsonb_agg(DISTINCT parent) FROM jsonb_array_elements(
                       coalesce(ingested_records.data->'_parent_ids', '[]') || (excluded.data->'_parent_ids')
                   ) AS parent))
               ELSE excluded.data END,
        ingested_at = excluded.ingested_at, expires_at = excluded.expires_at
"""


@dataclass(frozen=True)
class StoredPage:
    rows: list[Row]  # the given rows without those that were skipped, as jsonb holds them
    ids: list[str]  # of the stored records, without duplicates
    repeated: int  # number of rows with the id of another row of the page; the last of them was stored
    skipped: list[str]  # for each row that can't be stored, the reason
    replaced: int = 0  # those of the repeated rows that had other values
    nulled: int = 0  # number of values that are NaN or infinite, and were stored as null


def store(
    session: Session,
    model: str,
    rows: Sequence[Row],
    id_field: str,
    now: datetime,
    expires_at: datetime,
    origin: str = "",
) -> StoredPage:
    """Insert or update the rows. Values that jsonb can't hold are converted by `clean`.

    `origin` identifies the page. A row without an id gets an id that is derived from the origin and the row's position,
    so that equal rows stay separate records.
    """
    by_id: dict[str, tuple[bool, str]] = {}
    kept = []
    skipped = []
    nulled = 0
    replaced = 0
    for index, given in enumerate(rows):
        row, text = _as_json(given)
        record_id = id_of(row, id_field)
        if record_id is not None and len(record_id) > MAX_ID:
            skipped.append(f"{id_field} {record_id[:40]}… has {len(record_id)} characters, more than {MAX_ID}")
            continue
        has_id = record_id is not None and record_id not in NO_SEGMENT
        if record_id is None:
            record_id = "~" + hashlib.sha256(f"{origin}:{index}".encode()).hexdigest()
        replaced += record_id in by_id and by_id[record_id][1] != text
        by_id[record_id] = (has_id, text)
        kept.append(row)
        nulled += _not_finite(given) if row is not given else 0
    if by_id:
        has_ids = [has_id for has_id, _ in by_id.values()]
        # One text with a line per row, because psycopg takes longer to quote an array than PostgreSQL to store it.
        lines = "\n".join(text for _, text in by_id.values())
        with connection.cursor() as cursor:
            cursor.execute(UPSERT, [session.pk, model, now, expires_at, list(by_id), has_ids, lines])
    return StoredPage(kept, list(by_id), len(kept) - len(by_id), skipped, replaced, nulled)


def id_of(row: Mapping[str, Any], id_field: str) -> str | None:
    record_id = row.get(id_field)
    return None if record_id is None or isinstance(record_id, dict | list) else str(record_id)


def _as_json(row: Row) -> tuple[Row, str]:
    """Return the row as jsonb can hold it, and its JSON. A row that needs no change is not copied."""
    try:
        text = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
        if "\\u0000" not in text:
            return row, text
    except (TypeError, ValueError):
        pass  # the row has values of other types, numbers that are not finite, or half a surrogate pair
    converted: Row = clean(row)
    return converted, json.dumps(converted, ensure_ascii=False, separators=(",", ":"))


def _not_finite(value: Any) -> int:
    """Return how many numbers in a value are NaN or infinite."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return sum(map(_not_finite, value.values()))
    return sum(map(_not_finite, value)) if isinstance(value, list | tuple) else 0


def clean(value: Any) -> Any:
    """Convert the value to one that jsonb can hold.

    NUL characters and unpaired surrogates are replaced. NaN and infinity become None. Values of other types, such as
    dates, become texts.
    """
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
    """Flatten objects of `belongs_to` associations: `author: {id, name}` becomes `author_id` and `author_name`."""
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
    """Return the row with the requested fields, or the whole row if `fields` is empty.

    The record's id is always kept. A requested field of an association, such as `author_name`, also keeps `author_id`.
    The name of a declared association selects all of its fields. The path to a nested value keeps the whole object.
    """
    if not fields:
        return row
    whole = [f"{name}_" for name in resource.associations if name in fields]
    columns = {*fields, *(name.split(".")[0] for name in fields), resource.id_field}
    names = set(resource.associations) or {key.removesuffix("_id") for key in row if key.endswith("_id")}
    columns |= {f"{name}_id" for name in names if any(field.startswith(f"{name}_") for field in fields)}
    prefixes = ("_parent", *whole)
    return {key: value for key, value in row.items() if key in columns or key.startswith(prefixes)}
