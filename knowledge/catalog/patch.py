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


def equal(one: Any, other: Any) -> bool:
    """Equality of JSON values as canonical JSON: the order of keys does not matter, 1 and true differ."""
    return canonical(one) == canonical(other)


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def value_at(aspect: str, value: dict[str, Any] | None, path: Sequence[str]) -> Any:
    """What stands at the path of the aspect's keyed form, as it stands in the aspect; ABSENT if nothing does."""
    if value is None:
        return ABSENT
    keys = KEYED.get(aspect, {})
    here: Any = value
    steps = list(path)
    while steps:
        if isinstance(here, dict) and steps[0] in keys and "key" in keys[steps[0]]:
            rule = keys[steps[0]]
            taken = len(rule["key"])
            wanted, elements = steps[1 : 1 + taken], here.get(steps[0]) or []
            if not wanted:
                return here.get(steps[0], ABSENT)
            found = [element for element in elements if _key(element, rule["key"]) == wanted]
            if not found:
                return ABSENT
            here, steps, keys = found[0], steps[1 + taken :], rule.get("inside", {})
        elif isinstance(here, dict):
            if steps[0] not in here:
                return ABSENT
            keys = keys.get(steps[0], {})
            here, steps = here[steps[0]], steps[1:]
        else:
            return ABSENT
    return here


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


def _patch(here: dict[str, Any], keys: Keys, steps: list[str], operation: str, new: Any) -> None:
    name, rest = steps[0], steps[1:]
    rule = keys.get(name, {})
    if "key" in rule:
        _patch_list(here.setdefault(name, []), rule, rest, operation, new)
    elif rest:
        if name not in here and operation == "remove":
            return
        needed = REQUIRED[name] if name in NESTED else {}
        inner = here.setdefault(name, {})
        for key, value in needed.items():
            inner.setdefault(key, value)
        _patch(inner, rule, rest, operation, new)
    elif operation == "add":
        here[name] = new
    else:
        here.pop(name, None)


def _patch_list(elements: list[Any], rule: Keys, steps: list[str], operation: str, new: Any) -> None:
    fields = rule["key"]
    wanted, rest = steps[: len(fields)], steps[len(fields) :]
    place = next((n for n, element in enumerate(elements) if _key(element, fields) == wanted), None)
    if rest:
        if place is None:
            if operation == "remove":
                return
            elements.append(dict(zip(fields, wanted, strict=True)))
            place = len(elements) - 1
        _patch(elements[place], rule.get("inside", {}), rest, operation, new)
    elif operation == "add":
        if place is None:
            elements.append(new)
        else:
            elements[place] = new
    elif place is not None:
        del elements[place]


def _key(element: dict[str, Any], fields: Sequence[str]) -> list[str]:
    return [str(element.get(name, "")) for name in fields]


def pointer(path: Sequence[str]) -> str:
    """The path as a JSON pointer (RFC 6901)."""
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in path)


def from_pointer(text: str) -> tuple[str, ...]:
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:])
