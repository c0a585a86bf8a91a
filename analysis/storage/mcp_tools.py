"""MCP tools of the storage toolset. Their arguments are declared in analysis/operations.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analysis.operations import ListObjects, ObjectInfo, ReadObject
from analysis.responses import (
    ListedObjectResponse,
    ObjectColumnResponse,
    ObjectInfoResponse,
    ObjectListResponse,
    ObjectReadResponse,
)
from analysis.storage import objects
from analysis.storage.declaration import ObjectStore
from foundation.people.caller import Caller
from foundation.tools.declaration import Hints, tool

READS = Hints(read_only=True, open_world=True)


@tool(toolset="storage", title="List a bucket", hints=READS)
def object_list(caller: Caller, operation: ListObjects) -> ObjectListResponse:
    """List folders and files of an object store, such as a bucket of a data lake."""
    page = objects.list_objects(caller, operation)
    response: ObjectListResponse = {
        "store": page.store.name,
        "location": _location(page.store, operation.prefix),
        "folders": list(page.folders),
        "objects": [_listed(*entry) for entry in page.objects],
    }
    if page.cursor:
        response |= {"cursor": page.cursor, "note": "there are more: pass the cursor"}
    elif not (page.folders or page.objects):
        response["note"] = "no key begins with this prefix"
    return response


@tool(toolset="storage", title="Look at a file", hints=READS)
def object_info(caller: Caller, operation: ObjectInfo) -> ObjectInfoResponse:
    """Show size, time, and type of a file in an object store. Memories about its data set are returned with them."""
    found = objects.object_info(caller, operation)
    head = found.head
    response: ObjectInfoResponse = {
        "store": found.store.name,
        "key": found.key,
        "location": _location(found.store, found.key),
        "size": head.size,
        "storage_class": head.storage_class,
    }
    if head.modified:
        response["modified"] = head.modified.isoformat()
    if head.content_type:
        response["content_type"] = head.content_type
    if head.content_encoding:
        response["content_encoding"] = head.content_encoding
    if head.etag:
        response["etag"] = head.etag
    return response


@tool(toolset="storage", title="Read a file", hints=READS)
def object_read(caller: Caller, operation: ReadObject) -> ObjectReadResponse:
    """Read the beginning of a file in an object store: columns, types and first rows of CSV, JSON and Parquet, or text.

    Memories about its data set are returned with it.
    """
    content = objects.read_object(caller, operation)
    response: ObjectReadResponse = {
        "store": content.store.name,
        "key": content.key,
        "location": _location(content.store, content.key),
        "size": content.head.size,
        "format": content.format,
    }
    if content.text is not None:
        response["text"] = content.text
    elif content.format != "binary":
        response |= {"columns": _columns(content.columns), "rows": content.rows}
    if content.others:
        response["other_columns"] = _columns(content.others)
    if content.total_rows is not None:
        response["total_rows"] = content.total_rows
    if content.notes:
        response["note"] = "; ".join(content.notes)
    return response


def _location(store: ObjectStore, key: str) -> str:
    return f"s3://{store.path_of(key)}"


def _listed(key: str, size: int, modified: str) -> ListedObjectResponse:
    return {"key": key, "size": size, "modified": modified} if modified else {"key": key, "size": size}


def _columns(columns: Sequence[tuple[str, str]]) -> list[ObjectColumnResponse]:
    return [{"name": name, "type": kind} for name, kind in columns]


def _has_stores(caller: Caller) -> bool:
    return bool(objects.readable_stores(caller))


TOOLS = [replace(declared, is_available=_has_stores) for declared in (object_list, object_info, object_read)]
