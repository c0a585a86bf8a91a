"""JSON patches of aspects in keyed form.

Elements of the lists in KEYED are addressed by their key, as in DataHub's patch templates. For example, the path
`("tags", "urn:li:tag:PII")` in globalTags addresses the element with that tag, at any position. So patches don't depend
on positions, and patches of different elements don't affect each other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

# Aspect → list field → rule. "key" names the fields that identify an element of the list. "inside" has the same kind of
# rules for lists within an element.
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
# Fields of an element that have the required fields of the aspect with the same name.
NESTED = ("glossaryTerms",)
# Aspect → its required fields and their initial values, set when a patch creates the aspect.
REQUIRED: dict[str, dict[str, Any]] = {
    "glossaryTerms": {"auditStamp": {"time": 0, "actor": "urn:li:corpuser:unknown"}},
    "ownership": {"lastModified": {"time": 0, "actor": "urn:li:corpuser:unknown"}},
}
ABSENT = object()  # no value, as opposed to null


def equal(first: Any, second: Any) -> bool:
    """Compare two JSON values. The order of keys does not matter, 1 equals 1.0, and 1 differs from true."""
    return canonical(_with_plain_numbers(first)) == canonical(_with_plain_numbers(second))


def _with_plain_numbers(value: Any) -> Any:
    # PostgreSQL returns the float 1e16 as an integer, and other stores return the integer 90 as a float.
    if isinstance(value, dict):
        return {key: _with_plain_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_plain_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def value_at(aspect: str, value: dict[str, Any] | None, path: Sequence[str]) -> Any:
    """Return the value at a path of the aspect's keyed form, or ABSENT if there is none."""
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
    """Return a copy of the aspect's value with the element at the path added, replaced or removed.

    With an empty path, the whole aspect is replaced or removed. Removing an absent element is not an error. None is
    returned if the aspect has to be removed.
    """
    if not path:
        return new if operation == "add" else None
    result = json.loads(canonical(value)) if value is not None else dict(REQUIRED.get(aspect, {}))
    if value is None and operation == "remove":
        return None
    _patch(result, KEYED.get(aspect, {}), list(path), operation, new)
    return result or None  # an empty aspect is removed, because it may lack required fields


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
    index = next((position for position, element in enumerate(elements) if _key(element, fields) == key), None)
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
    """Return the path as a JSON pointer (RFC 6901)."""
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in path)


def from_pointer(text: str) -> tuple[str, ...]:
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:])
