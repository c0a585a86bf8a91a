"""DataHub metadata files: import of MCE and MCP JSON into the embedded catalog, and export of changesets as MCPs.

MCE and MCP are DataHub's metadata change events and proposals.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from foundation.database.connections import analyze_tables
from foundation.operations.errors import Invalid
from foundation.operations.fields import UNSTORABLE, URN_LENGTH, URN_PATTERN
from knowledge.catalog import entity_view
from knowledge.catalog.bulk_write import AspectWrite, put_many
from knowledge.catalog.interface import entity_type
from knowledge.catalog.json_patch import Unpatchable, from_pointer, pointer
from knowledge.models import CatalogAspect, CatalogEntity, Change

ASPECT_LENGTH = CatalogAspect._meta.get_field("aspect").max_length or 0
JSON_PATCH = "application/json-patch+json"
# U+0000 as JSON writes it, but not a backslash before the letters u0000
NULL_CHARACTER = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
CHUNK = 200  # maximum number of records per bulk write


@dataclass(frozen=True)
class Proposal:
    urn: str
    aspect: str
    kind: str  # UPSERT or PATCH
    payload: Any  # the aspect's value, or the patch's operations


@dataclass
class Loaded:
    records: int = 0
    stale: int = 0  # memories that became stale because of the load
    urns: set[str] = field(default_factory=set)  # entities that changed
    writes: int = 0
    unchanged: int = 0
    unknown: Counter[str] = field(default_factory=Counter)  # writes to aspects that the product does not read
    skipped: Counter[str] = field(default_factory=Counter)  # number of skipped records, by reason


def read_file(path: Path) -> list[Any]:
    try:
        records = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise Invalid(f"{path}: {error}", field="file", allowed="a JSON file of metadata events") from None
    if isinstance(records, dict) and {"proposedSnapshot", "aspectName"} & set(records):  # a single record
        return [records]
    if not isinstance(records, list):
        raise Invalid(f"{path} does not contain a list", field="file", allowed="a JSON list of MCE or MCP records")
    return records


def write(records: Iterable[Any], *, known_only: bool = False) -> Iterator[Loaded]:
    """Write records into the embedded catalog, yielding the running counts after each chunk."""
    count = Loaded()
    for chunk in batched(records, CHUNK):
        result = put_many(_puts(chunk, count, known_only))
        count.writes += result.writes
        count.unchanged += result.unchanged
        count.urns |= result.urns
        count.skipped += result.unusable
        count.records += len(chunk)
        yield count
    analyze_tables(CatalogAspect, CatalogEntity)


def batched(records: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(records)
    while chunk := list(islice(iterator, size)):
        yield chunk


def _puts(records: Iterable[Any], count: Loaded, known_only: bool) -> Iterator[AspectWrite]:
    stamp = {"runId": "load-catalog"}
    for record in records:
        for proposal in proposals(record, count):
            if len(proposal.aspect) > ASPECT_LENGTH or UNSTORABLE.search(proposal.aspect):
                count.skipped["no usable name of an aspect"] += 1
                continue
            if proposal.aspect not in entity_view.ASPECTS:
                count.unknown[proposal.aspect] += 1
                if known_only:
                    continue
            if problem := _not_storable(proposal.payload):
                count.skipped[f"{proposal.aspect} with {problem}"] += 1
                continue
            if not isinstance(proposal.payload, list if proposal.kind == "PATCH" else dict):
                count.skipped[f"{proposal.aspect} in another form than DataHub's"] += 1
                continue
            if proposal.kind != "PATCH":
                yield AspectWrite(proposal.urn, proposal.aspect, proposal.payload, stamp)
                continue
            try:
                operations = [_operation(each) for each in proposal.payload]
            except Unpatchable as error:
                count.skipped[f"patch of {proposal.aspect}: {error}"] += 1
            else:
                if operations:
                    yield AspectWrite(proposal.urn, proposal.aspect, None, stamp, operations)


def _not_storable(payload: Any) -> str:
    """Return what PostgreSQL can't store of a payload, or ""."""
    try:
        text = json.dumps(payload, allow_nan=False, ensure_ascii=False)
    except ValueError:  # Python writes these, though JSON has no name for them
        return "NaN or infinity"
    except RecursionError:
        return "deeper nesting than can be read"
    if NULL_CHARACTER.search(text):
        return "a null character"
    return "half a surrogate pair" if UNSTORABLE.search(text) else ""


def _operation(given: Any) -> tuple[tuple[str, ...], str, Any]:
    """Return path, operation and value of an operation of a JSON patch. Raises Unpatchable."""
    path, name = (given.get("path"), given.get("op")) if isinstance(given, dict) else (None, None)
    if not isinstance(path, str) or not path.startswith("/"):
        raise Unpatchable("an operation has no path")
    if name not in ("add", "replace", "remove"):
        raise Unpatchable(f"the operation {str(name)[:20]!r} is not supported")
    if name != "remove" and "value" not in given:
        raise Unpatchable(f"the operation {name!r} has no value")
    return from_pointer(path), "remove" if name == "remove" else "add", given.get("value")


def proposals(record: Any, count: Loaded) -> Iterator[Proposal]:
    """Yield the proposals of an MCE or MCP record. An unusable record is counted in `count.skipped`."""
    if not isinstance(record, dict):
        count.skipped["not an object"] += 1
    elif snapshot := record.get("proposedSnapshot"):
        yield from _of_snapshot(snapshot, count)
    elif record.get("aspectName") and record.get("entityUrn"):
        yield from _of_proposal(record, count)
    else:
        count.skipped["neither MCE nor MCP"] += 1


def _of_snapshot(snapshot: Any, count: Loaded) -> Iterator[Proposal]:
    if isinstance(snapshot, list) and len(snapshot) == 2 and isinstance(snapshot[0], str):
        snapshot = {snapshot[0]: snapshot[1]}  # name and value of a union, as Python's client writes it
    if not isinstance(snapshot, dict):
        count.skipped["a snapshot in another form than DataHub's"] += 1
        return
    for body in snapshot.values():
        urn = str(body.get("urn", "")) if isinstance(body, dict) else ""
        if not _is_usable(urn):
            count.skipped["no usable URN"] += 1
            continue
        aspects = body.get("aspects") or []
        if not isinstance(aspects, list):
            count.skipped["aspects that are no list"] += 1
            continue
        for aspect in aspects:
            if not isinstance(aspect, dict):
                count.skipped["an aspect that is no object"] += 1
                continue
            for name, value in aspect.items():
                yield Proposal(urn, aspect_name(name), "UPSERT", value)


def _of_proposal(record: dict[str, Any], count: Loaded) -> Iterator[Proposal]:
    urn = str(record["entityUrn"])
    kind = str(record.get("changeType") or "UPSERT")
    aspect = record.get("aspect") or {}
    try:
        payload = aspect["json"] if "json" in aspect else json.loads(aspect["value"])
    except (KeyError, TypeError, ValueError, RecursionError):
        count.skipped["no readable aspect"] += 1
        return
    if not _is_usable(urn):
        count.skipped["no usable URN"] += 1
    elif kind not in ("UPSERT", "CREATE", "CREATE_ENTITY", "PATCH"):
        count.skipped[f"change type {kind}"] += 1
    else:
        if kind == "PATCH" and isinstance(payload, dict):
            payload = payload.get("patch", [])  # a patch in the SDK's generic form
        yield Proposal(urn, str(record["aspectName"]), "PATCH" if kind == "PATCH" else "UPSERT", payload)


def _is_usable(urn: str) -> bool:
    return len(urn) <= URN_LENGTH and bool(URN_PATTERN.fullmatch(urn)) and not UNSTORABLE.search(urn)


def aspect_name(class_name: str) -> str:
    """Return the aspect name for an Avro class name: `datasetProperties` for ….dataset.DatasetProperties.

    A leading ML is lower-cased as a whole: `mlModelProperties` for MLModelProperties.
    """
    last = class_name.rpartition(".")[2]
    return re.sub(r"^(ML|[A-Z])", lambda match: match.group(1).lower(), last)


def as_proposals(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """Return the changes as MCPs for a metadata file.

    Run ids and preconditions are left out, because the importing side sets its own.
    """
    records = []
    for change in changes:
        is_whole = not change.path
        operation = {"op": change.operation, "path": pointer(change.path), "value": change.written}
        records.append(
            {
                "entityType": entity_type(change.urn),
                "entityUrn": change.urn,
                "changeType": "UPSERT" if is_whole else "PATCH",
                "aspectName": change.aspect,
                "aspect": {"json": change.written if is_whole else [operation]},
            }
        )
    return records
