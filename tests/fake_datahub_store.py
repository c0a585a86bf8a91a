"""Aspect store of the fake DataHub: versioned, validated with the SDK's classes, and patched as a server does."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any


class ErrorResponse(Exception):
    def __init__(self, status: int, body: Any) -> None:
        self.status, self.body = status, body


# Fields that identify the elements of a list, from the server's patch templates.
KEYS: dict[str, dict[tuple[str, ...], list[str]]] = {
    "globalTags": {("tags",): ["tag"]},
    "glossaryTerms": {("terms",): ["urn"]},
    "ownership": {("owners",): ["owner", "type"]},
    "structuredProperties": {("properties",): ["propertyUrn"]},
    "upstreamLineage": {("upstreams",): ["dataset"]},
    "editableSchemaMetadata": {
        ("editableSchemaFieldInfo",): ["fieldPath"],
        ("editableSchemaFieldInfo", "globalTags", "tags"): ["tag"],
    },
}


class Store:
    """Versions of each aspect, newest last. None marks a removed aspect."""

    def __init__(self) -> None:
        self.versions: dict[tuple[str, str], list[tuple[Any, dict[str, Any]]]] = {}

    def put(self, urn: str, aspect: str, value: Any, system_metadata: dict[str, Any] | None = None) -> None:
        if value is not None:
            validate(aspect, value)
        if self.value(urn, aspect) != value:
            self.versions.setdefault((urn, aspect), []).append((copy.deepcopy(value), system_metadata or {}))

    def value(self, urn: str, aspect: str) -> Any:
        versions = self.versions.get((urn, aspect))
        return copy.deepcopy(versions[-1][0]) if versions else None

    def version(self, urn: str, aspect: str) -> int:
        return len(self.versions.get((urn, aspect), []))

    def urns(self, kind: str = "") -> list[str]:
        return sorted({urn for urn, _ in self.versions if urn.startswith(f"urn:li:{kind}")})

    def latest(self, urn: str, aspects: set[str] | None = None, lagging: bool = False) -> dict[str, Any]:
        """Return the latest aspects in the server's format. With `lagging`, ignore versions written by changesets."""
        response = {}
        names = {aspect for entity, aspect in self.versions if entity == urn} if aspects is None else aspects
        for aspect in names:
            rows = list(enumerate(self.versions.get((urn, aspect), ()), 1))
            if lagging:
                rows = [row for row in rows if not str(row[1][1].get("runId", "")).startswith("cs-")]
            if rows and rows[-1][1][0] is not None:
                version, (value, stamp) = rows[-1]
                response[aspect] = {"value": value, "systemMetadata": {**stamp, "version": str(version)}}
        return response


def validate(aspect: str, value: Any) -> None:
    """Validate like the server's models: reject unknown aspects and fields, missing fields and wrong types."""
    from datahub.metadata.schema_classes import ASPECT_NAME_MAP

    cls = ASPECT_NAME_MAP.get(aspect)
    if cls is None:
        raise ErrorResponse(400, {"message": f"unknown aspect {aspect}"})
    try:
        parsed = cls.from_obj(copy.deepcopy(value))
        if not parsed.validate():
            raise ValueError("does not validate")
        unknown_fields = {key for key, item in value.items() if item is not None} - set(parsed.to_obj())
        if unknown_fields:
            raise ValueError(f"unknown fields {sorted(unknown_fields)}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ErrorResponse(422, {"message": f"{aspect} is invalid: {error}"}) from None


def patch(value: Any, operations: list[dict[str, Any]], keys: dict[tuple[str, ...], list[str]]) -> Any:
    """Apply `add` and `remove` of RFC 6902 to the aspect, with its keyed lists converted to maps."""
    tree = as_maps(value or {}, keys, ())
    for operation in operations:
        *steps, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        node = tree
        for step in steps:
            node = node.setdefault(step, {})
        if operation["op"] == "remove":
            if last not in node:
                raise ErrorResponse(500, {"message": f"nothing to remove at {operation['path']}"})
            del node[last]
        else:
            node[last] = as_maps(operation["value"], keys, tuple(steps))
    return as_lists(tree, keys, ())


def as_maps(value: Any, keys: dict[tuple[str, ...], list[str]], path: tuple[str, ...]) -> Any:
    if isinstance(value, list) and path in keys:
        tree: dict[str, Any] = {}
        for element in value:
            node = tree
            *outer, last = [str(element.get(name, "")) for name in keys[path]]
            for step in outer:
                node = node.setdefault(step, {})
            node[last] = as_maps(element, keys, path)
        return tree
    if isinstance(value, dict):
        return {name: as_maps(inner, keys, (*path, name)) for name, inner in value.items()}
    return value


def as_lists(value: Any, keys: dict[tuple[str, ...], list[str]], path: tuple[str, ...]) -> Any:
    if path in keys and isinstance(value, dict):
        names, below = keys[path], {position: fields for position, fields in keys.items() if position != path}
        return [
            {**dict(zip(names, key, strict=True)), **as_lists(element, below, path)}
            for key, element in leaves(value, len(names))
        ]
    if isinstance(value, dict):
        return {name: as_lists(inner, keys, (*path, name)) for name, inner in value.items()}
    return value


def leaves(tree: dict[str, Any], depth: int) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, inner in tree.items():
        if depth == 1:
            yield (name,), inner
        else:
            yield from (((name, *rest), element) for rest, element in leaves(inner, depth - 1))


def default(aspect: str) -> dict[str, Any]:
    """Return the initial value that a patch template uses for an absent aspect."""
    stamp = {"time": 0, "actor": "urn:li:corpuser:unknown"}
    defaults: dict[str, dict[str, Any]] = {
        "glossaryTerms": {"terms": [], "auditStamp": stamp},
        "ownership": {"owners": [], "lastModified": stamp},
    }
    return defaults.get(aspect, {})
