"""Reading of object stores: lists of objects, properties of one, and the beginning of its content."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from django.conf import settings

from analysis.operations import ListObjects, ObjectInfo, ReadObject
from analysis.sources import declared_texts, is_permitted
from analysis.sources.interface import UpstreamFailed
from analysis.sql.execute import within_time
from analysis.sql.values import MAX_CELL, Bounds
from analysis.storage import formats, keys
from analysis.storage.declaration import ObjectStore, is_store, parse
from analysis.storage.duckdb_files import FileProcess
from foundation.database import connections
from foundation.operations.errors import DomainError, Invalid
from foundation.people.caller import Caller
from foundation.tools.budget import ENVELOPE, size
from foundation.tools.shortening import MARK

if TYPE_CHECKING:
    from analysis.storage.s3 import Bucket, ObjectHead, ObjectListing

OTHER_COLUMNS = 100  # maximum number of columns that are named without values
SCHEMA_BYTES = 10_000  # reserved in the response for these


@dataclass(frozen=True)
class StoreListing:
    store: ObjectStore
    folders: Sequence[str]  # below the store's folder, as are the keys
    objects: Sequence[tuple[str, int, str]]  # key, size in bytes, time of the last change
    cursor: str


@dataclass(frozen=True)
class StoredObject:
    store: ObjectStore
    key: str
    head: ObjectHead


@dataclass
class Content:
    """The beginning of an object: a text, or rows with columns and their types."""

    store: ObjectStore
    key: str
    head: ObjectHead
    format: str
    text: str | None = None
    columns: list[tuple[str, str]] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    others: list[tuple[str, str]] = field(default_factory=list)  # columns without values
    total_rows: int | None = None  # of the whole object, if it tells
    notes: list[str] = field(default_factory=list)


def readable_stores(caller: Caller) -> dict[str, ObjectStore]:
    return {store.name: store for store in _valid_stores() if is_permitted(caller, store.read_personas)}


def list_objects(caller: Caller, operation: ListObjects) -> StoreListing:
    """Return a page of the objects and folders whose keys begin with a prefix.

    Raises Invalid for an unknown store or a prefix that leads out of it, Degraded if its credentials are missing, and
    UpstreamFailed if it fails.
    """
    store = _store_named(operation.store, caller)
    prefix = keys.check("prefix", operation.prefix, store.folder)
    with closing(_opened(store)) as bucket:
        limit = operation.limit
        while True:
            listing = bucket.list(prefix, limit=limit, token=operation.cursor, is_recursive=operation.recursive)
            page = _page(store, listing, prefix)
            fitting = _fitting_count(page)
            if fitting >= len(page.folders) + len(page.objects) or limit == 1:
                return page
            # Of a page that doesn't fit, a part would be left out, and the next page would begin after it.
            limit = max(fitting, 1)


def object_info(caller: Caller, operation: ObjectInfo) -> StoredObject:
    """Return the properties of an object. Raises NotFound if there is none, and otherwise like `list_objects`."""
    store = _store_named(operation.store, caller)
    key = keys.check("key", operation.key, store.folder)
    with closing(_opened(store)) as bucket:
        return StoredObject(store, operation.key, bucket.head(key))


def read_object(caller: Caller, operation: ReadObject) -> Content:
    """Return the beginning of an object's content.

    Raises LimitReached if that needs more bytes, memory or time than allowed, and otherwise like `object_info`.
    """
    store = _store_named(operation.store, caller)
    key = keys.check("key", operation.key, store.folder)
    if operation.columns and (operation.format or formats.by_name(key)) != "parquet":
        raise Invalid("is for Parquet files only", field="columns", allowed="leave it out")
    with closing(_opened(store)) as bucket, TemporaryDirectory(prefix="object-") as folder:
        content = Content(store, operation.key, bucket.head(key), operation.format or formats.by_name(key))
        path = Path(folder) / "object"
        if content.format == "parquet":
            _read_parquet(content, operation, bucket, key, path)
        else:
            _read_text(content, operation, bucket, key, path)
        return content


def try_store(store: ObjectStore, timeout_s: float) -> list[str]:
    """List one object of a store that need not be saved. Raises like `list_objects`."""
    started = time.monotonic()
    limited = store.model_copy(update={"timeout_s": min(timeout_s, store.timeout_s)})
    with closing(_opened(limited)) as bucket:
        bucket.list(store.folder, limit=1)
    took_ms = 1000 * (time.monotonic() - started)
    return [
        f"the bucket answered after {took_ms:.0f} ms",
        f"read by: {', '.join(store.read_personas) or 'operators'}",
    ]


def _valid_stores() -> list[ObjectStore]:
    stores = []
    for name, text, is_from_file in declared_texts():
        if is_store(text):
            # An invalid declaration must not make the other stores unusable.
            with contextlib.suppress(DomainError):
                stores.append(parse(name, text, is_from_file=is_from_file))
    return stores


def _store_named(name: str, caller: Caller) -> ObjectStore:
    stores = readable_stores(caller)
    if name and name in stores:
        return stores[name]
    if not name and len(stores) == 1:
        return next(iter(stores.values()))
    allowed = ", ".join(sorted(stores)) or "none, because no store is declared for your personas"
    raise Invalid(f"{name[:60]!r} is unknown" if name else "is missing", field="store", allowed=allowed)


def _opened(store: ObjectStore) -> Bucket:
    from analysis.storage.s3 import Bucket  # noqa: PLC0415 - its HTTP client takes a tenth of a second to import

    connections.close_if_pooled()  # don't hold a database connection while waiting for the store
    return Bucket(store)


def _page(store: ObjectStore, listing: ObjectListing, prefix: str) -> StoreListing:
    start = len(store.folder)
    return StoreListing(
        store,
        [folder[start:] for folder in listing.folders],
        [
            (entry.key[start:], entry.size, entry.modified.isoformat() if entry.modified else "")
            for entry in listing.objects
            if entry.key != prefix or not prefix.endswith("/")  # an empty object that stands for the folder itself
        ],
        listing.token,
    )


def _fitting_count(page: StoreListing) -> int:
    """Return how many of the first folders and objects, in the order of the bucket, fit in a response."""
    room = settings.ANSWER_BUDGET_BYTES - ENVELOPE - len(page.cursor)
    entries = [(folder, size(folder)) for folder in page.folders]
    entries += [(key, size({"key": key, "size": length, "modified": at})) for key, length, at in page.objects]
    for count, (_, length) in enumerate(sorted(entries)):
        room -= length + 2
        if room < 0:
            return count
    return len(entries)


def _read_parquet(content: Content, operation: ReadObject, bucket: Bucket, key: str, path: Path) -> None:
    from analysis.storage import parquet  # noqa: PLC0415 - imports the HTTP client

    store = content.store
    limit = operation.limit
    source = parquet.ParquetSource(bucket, key, content.head, path, store.parquet_bytes)
    read = parquet.read(
        source, lambda request: _ask(bucket, request), columns=operation.columns, limit=limit, bounds=_bounds(limit)
    )
    _take_rows(content, read.result, is_cut=bool(read.result.get("is_cut")))
    content.total_rows = read.total_rows
    content.others = read.others[:OTHER_COLUMNS]
    if read.too_large:
        content.notes.append(
            f"the values of {read.too_large} columns were not read, because they take more than "
            f"{store.parquet_bytes:,} bytes (parquet_bytes of the store): name fewer in columns"
        )
    if len(read.others) > OTHER_COLUMNS:
        content.notes.append(f"the file has {len(read.others) - OTHER_COLUMNS} more columns")


def _read_text(content: Content, operation: ReadObject, bucket: Bucket, key: str, path: Path) -> None:
    store = content.store
    length = min(content.head.size, content.store.text_bytes)
    data = bucket.read(key, 0, length, content.head.etag)
    begun = formats.beginning(data, path, store.text_bytes, is_whole=length == content.head.size)
    if begun.is_binary:
        content.format = "binary"
        content.notes.append("the object is no text: only text, CSV, JSON and Parquet can be read")
        return
    if content.format in ("csv", "tsv", "json"):
        try:
            _read_rows(content, operation, bucket, begun, path)
            return
        except UpstreamFailed as error:
            if operation.format:
                raise
            content.notes.append(f"returned as text, because it can't be read as {content.format}: {error}")
    content.format = "text"
    _take_lines(content, begun, operation.limit)


def _read_rows(
    content: Content, operation: ReadObject, bucket: Bucket, begun: formats.ObjectBeginning, path: Path
) -> None:
    most = content.store.text_bytes
    if content.format == "json":
        as_json = formats.without_nan(begun.text)
        text = formats.json_lines(replace(begun, text=as_json), most)
        if as_json != begun.text:
            content.notes.append("NaN and infinite values were read as null")
    else:
        text = formats.whole_lines(begun, most)
    path.write_text(text, encoding="utf-8", errors="replace", newline="")  # JSON may have half a surrogate pair
    if not text.strip():
        content.notes.append("the object has no rows")
        return
    request = {
        "read": "rows",
        "format": content.format,
        "path": str(path),
        "columns": None,
        "bounds": asdict(_bounds(operation.limit)),
        "limit": operation.limit + 1,
    }
    result = _ask(bucket, request)
    _take_rows(content, result, is_cut=result["is_cut"] or not begun.is_whole)
    if result["columns_left_out"]:
        content.notes.append(f"{result['columns_left_out']} more columns do not fit")
    if not begun.is_whole:
        content.notes.append(f"types are those of the first {most:,} bytes (text_bytes of the store)")


def _ask(bucket: Bucket, request: dict[str, Any]) -> dict[str, Any]:
    """Send a request to a process of DuckDB. Downloads hold none, so that a slow store doesn't keep others waiting."""
    process = FileProcess()
    return within_time(process, lambda: process.ask(request), bucket.remaining_s, bucket.overtime)


def _bounds(limit: int) -> Bounds:
    return Bounds(rows=limit, bytes=settings.ANSWER_BUDGET_BYTES - ENVELOPE - SCHEMA_BYTES, text=MAX_CELL)


def _take_rows(content: Content, result: dict[str, Any], *, is_cut: bool) -> None:
    content.rows = result["rows"]
    content.columns = list(zip(result["columns"], result["types"], strict=True))
    if is_cut:
        content.notes.append("there are more rows: raise limit")
    if shortened := result.get("shortened"):
        content.notes.append(f"values were shortened where {MARK} says so, in {', '.join(shortened[:5])}")


def _take_lines(content: Content, begun: formats.ObjectBeginning, limit: int) -> None:
    """Take the first lines that fit in the response. A long line is cut."""
    room = settings.ANSWER_BUDGET_BYTES - ENVELOPE - SCHEMA_BYTES
    lines = begun.text.removesuffix("\n").split("\n")
    taken: list[str] = []
    for line in (line.removesuffix("\r") for line in lines[:limit]):
        shown = line if len(line) <= MAX_CELL else f"{line[:MAX_CELL]}{MARK} ({len(line)} characters)"
        room -= size(shown)
        if room < 0:
            break
        taken.append(shown)
    content.text = "\n".join(taken)
    if len(taken) < len(lines) or not begun.is_whole:
        content.notes.append("there is more text: raise limit")
