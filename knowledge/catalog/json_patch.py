"""Aspects as maps: lists whose elements have a key are addressed by it, as DataHub's patch templates do.

`("tags", "urn:li:tag:PII")` of globalTags is the element with that tag, wherever it stands in the list.
So a patch never depends on positions, and two patches to different elements never disturb each other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

# aspect → list field → the key of its elements; nested lists of an element below "*".
Keys = dict[str, Any]
KEYED: dict[str, Keys] = {
    "globalTags": {"tags": {"key": ("tag",)}},
    "glossaryTerms": {"terms": {"key": ("urn",)}},
    "ownership": {"owners": {"key": ("owner", "type")}},
    "institutionalMemory": {"elements": {"key": ("url",)}},
    "structuredProperties": {"properties": {"key": ("propertyUrn",)}},
    "editableSchemaMetadata": {
        "editableSchemaFieldInfo": {
            "key": ("fieldPath",),
            "inside": {
                "globalTags": {"tags": {"key": ("tag",)}},
                "glossaryTerms": {"terms": {"key": ("urn",)}},
            },
        }
    },
}
# Keys of an element below which something stands that is itself an aspect, and needs what that needs.
NESTED = ("glossaryTerms",)
# What an aspect that is absent looks like before its first patch.
REQUIRED: dict[str, dict[str, Any]] = {
    "glossaryTerms": {"auditStamp": {"time": 0, "actor": "urn:li:corpuser:unknown"}},
    "ownership": {"lastModified": {"time": 0, "actor": "urn:li:corpuser:unknown"}},
}
ABSENT = object()


def equal(first: Any, second: Any) -> bool:
    """Equality of JSON values as canonical JSON: the order of keys does not matter, 1 and true differ."""
    return canonical(first) == canonical(second)


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def value_at(aspect: str, value: dict[str, Any] | None, path: Sequence[str]) -> Any:
    """What stands at the path of the aspect's keyed form, as it stands in the aspect; ABSENT if nothing does."""
    if value is None:
        return ABSENT
    keys = KEYED.get(aspect, {})
    node: Any = value
    steps = list(path)
    while steps:
        if isinstance(node, dict) and steps[0] in keys and "key" in keys[steps[0]]:
            rule = keys[steps[0]]
            length = len(rule["key"])
            key, elements = steps[1 : 1 + length], node.get(steps[0]) or []
            if not key:
                return node.get(steps[0], ABSENT)
            matches = [element for element in elements if _key(element, rule["key"]) == key]
            if not matches:
                return ABSENT
            node, steps, keys = matches[0], steps[1 + length :], rule.get("inside", {})
        elif isinstance(node, dict):
            if steps[0] not in node:
                return ABSENT
            keys = keys.get(steps[0], {})
            node, steps = node[steps[0]], steps[1:]
        else:
            return ABSENT
    return node


def patched(aspect: str, value: dict[str, Any] | None, path: Sequence[str], operation: str, new: Any) -> Any:
    """A new aspect value with the element at the path added (or replaced), or removed. Removing what is not
    there changes nothing. None means that the aspect is gone."""
    if not path:
        return new if operation == "add" else None
    start = json.loads(canonical(value)) if value is not None else dict(REQUIRED.get(aspect, {}))
    if value is None and operation == "remove":
        return None
    _patch(start, KEYED.get(aspect, {}), list(path), operation, new)
    return start or None  # an aspect of which nothing is left is gone: an empty one may lack what it has to have


def _patch(node: dict[str, Any], keys: Keys, steps: list[str], operation: str, new: Any) -> None:
    name, rest = steps[0], steps[1:]
    rule = keys.get(name, {})
    if "key" in rule:
        _patch_list(node.setdefault(name, []), rule, rest, operation, new)
    elif rest:
        if name not in node and operation == "remove":
            return
        defaults = REQUIRED[name] if name in NESTED else {}
        inner = node.setdefault(name, {})
        for key, value in defaults.items():
            inner.setdefault(key, value)
        _patch(inner, rule, rest, operation, new)
    elif operation == "add":
        node[name] = new
    else:
        node.pop(name, None)


def _patch_list(elements: list[Any], rule: Keys, steps: list[str], operation: str, new: Any) -> None:
    fields = rule["key"]
    key, rest = steps[: len(fields)], steps[len(fields) :]
    index = next((n for n, element in enumerate(elements) if _key(element, fields) == key), None)
    if rest:
        if index is None:
            if operation == "remove":
                return
            elements.append(dict(zip(fields, key, strict=True)))
            index = len(elements) - 1
        _patch(elements[index], rule.get("inside", {}), rest, operation, new)
    elif operation == "add":
        if index is None:
            elements.append(new)
        else:
            elements[index] = new
    elif index is not None:
        del elements[index]


def _key(element: dict[str, Any], fields: Sequence[str]) -> list[str]:
    return [str(element.get(name, "")) for name in fields]


def pointer(path: Sequence[str]) -> str:
    """The path as a JSON pointer (RFC 6901)."""
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in path)


def from_pointer(text: str) -> tuple[str, ...]:
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:])
