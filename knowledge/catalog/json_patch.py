"""JSON patches of aspects in keyed form.

Elements of the lists in KEYED are addressed by their key, as in DataHub's patch templates. For example, the path
`("tags", "urn:li:tag:PII")` in globalTags addresses the element with that tag, at any position. So patches don't depend
on positions, and patches of different elements don't affect each other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

# Aspect → list field → rule. "key" names the fields that identify an element of the list; none if the element is a
# text, which is its own key. "inside" has the same kind of rules for lists within an element. FINE_GRAINED is the
# lineage of columns, whose elements hold lists of columns and so have a form of their own.
Keys = dict[str, Any]
TEXTS: Keys = {"key": ()}
EDGES: Keys = {"key": ("destinationUrn",)}
FINE_GRAINED: Keys = {"key": ("transformOperation", "downstreams", "query", "upstreams")}
KEYED: dict[str, Keys] = {
    "globalTags": {"tags": {"key": ("tag",)}},
    "glossaryTerms": {"terms": {"key": ("urn",)}},
    "ownership": {"owners": {"key": ("owner", "type")}},
    "institutionalMemory": {"elements": {"key": ("url",)}},
    "structuredProperties": {"properties": {"key": ("propertyUrn",)}},
    "upstreamLineage": {"upstreams": {"key": ("dataset",)}, "fineGrainedLineages": FINE_GRAINED},
    "dataJobInputOutput": {
        "inputDatajobEdges": EDGES,
        "inputDatasetEdges": EDGES,
        "outputDatasetEdges": EDGES,
        "inputDatajobs": TEXTS,
        "inputDatasets": TEXTS,
        "outputDatasets": TEXTS,
        "inputDatasetFields": TEXTS,
        "outputDatasetFields": TEXTS,
        "fineGrainedLineages": FINE_GRAINED,
    },
    "dashboardInfo": {
        "chartEdges": EDGES,
        "datasetEdges": EDGES,
        "charts": TEXTS,
        "datasets": TEXTS,
        "dashboards": EDGES,
    },
    "chartInfo": {"inputEdges": EDGES, "inputs": TEXTS},
    "domains": {"domains": TEXTS},
    "siblings": {"siblings": TEXTS},
    "dataProductProperties": {"assets": EDGES},
    "schemaMetadata": {
        "fields": {
            "key": ("fieldPath",),
            "inside": {
                "globalTags": {"tags": {"key": ("tag",)}},
                "glossaryTerms": {"terms": {"key": ("urn",)}},
            },
        }
    },
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
NONE = "NONE"  # in a path of column lineage: no operation, or no query
ABSENT = object()  # no value, as opposed to null


class Unpatchable(ValueError):
    """A patch does not fit the aspect. The text says why."""


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
            length = _length(rule)
            key = steps[1 : 1 + length]
            elements = node.get(steps[0]) or []
            if not key:
                return node.get(steps[0], ABSENT)
            matches = [element for element in elements if _key(element, rule["key"]) == key]
            if not matches:
                return ABSENT
            node = matches[0]
            steps = steps[1 + length :]
            keys = rule.get("inside", {})
        elif isinstance(node, dict):
            if steps[0] not in node:
                return ABSENT
            keys = keys.get(steps[0], {})
            node = node[steps[0]]
            steps = steps[1:]
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


def _patch(node: Any, keys: Keys, steps: list[str], operation: str, new: Any) -> None:
    if not isinstance(node, dict):
        raise Unpatchable(f"there is no object at {steps[0]!r}")
    name = steps[0]
    rest = steps[1:]
    rule = keys.get(name, {})
    if "key" in rule and not rest and operation == "remove":
        node.pop(name, None)
    elif "key" in rule:
        if not isinstance(node.get(name), list):
            node[name] = []
        _patch_list(node[name], rule, rest, operation, new)
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
    if operation == "add" and not steps:  # the list as a whole
        if not isinstance(new, list):
            raise Unpatchable("a list is needed here")
        elements[:] = new
        return
    if operation == "remove" and len(steps) < _length(rule):  # whatever begins with this part of the key
        elements[:] = [] if not steps else [each for each in elements if _key(each, fields)[: len(steps)] != steps]
        return
    if rule is FINE_GRAINED:
        return _patch_columns(elements, steps, operation, new)
    if len(steps) < _length(rule):
        raise Unpatchable(f"the key of an element has {_length(rule)} parts")
    key = steps[: _length(rule)]
    rest = steps[_length(rule) :]
    index = next((position for position, element in enumerate(elements) if _key(element, fields) == key), None)
    if rest:
        if index is None:
            if operation == "remove":
                return
            elements.append(dict(zip(fields, key, strict=True)) if fields else key[0])
            index = len(elements) - 1
        _patch(elements[index], rule.get("inside", {}), rest, operation, new)
    elif operation == "add":
        if fields and not isinstance(new, dict):
            raise Unpatchable("an object is needed here")
        element = new if fields else key[0]
        if index is None:
            elements.append(element)
        else:
            elements[index] = element
    elif index is not None:
        del elements[index]


def _patch_columns(elements: list[Any], steps: list[str], operation: str, new: Any) -> None:
    """Add an upstream column to the element with the same operation, downstream column and query, or remove it."""
    if len(steps) != 4:
        raise Unpatchable("the key of column lineage has 4 parts: operation, downstream, query and upstream")
    operated, downstream, query, upstream = steps
    found = next((each for each in elements if _key(each, FINE_GRAINED["key"])[:3] == steps[:3]), None)
    if operation == "remove":
        if found is not None:
            found["upstreams"] = [urn for urn in found.get("upstreams") or [] if urn != upstream]
            elements[:] = [each for each in elements if each is not found or found["upstreams"]]
        return
    confidence = new.get("confidenceScore", 1.0) if isinstance(new, dict) else 1.0
    if found is None:
        found = {
            "upstreamType": "FIELD_SET", "downstreamType": "FIELD", "upstreams": [], "downstreams": [downstream],
            "transformOperation": operated, "confidenceScore": confidence,
            **({} if query == NONE else {"query": query}),
        }  # fmt: skip
        elements.append(found)
    if upstream not in found.setdefault("upstreams", []):
        found["upstreams"].append(upstream)
    found["confidenceScore"] = min(found.get("confidenceScore", 1.0), confidence)


def _length(rule: Keys) -> int:
    return len(rule["key"]) or 1


def _key(element: Any, fields: Sequence[str]) -> list[str]:
    if not fields:
        return [str(element)]
    if not isinstance(element, dict):
        return []
    if tuple(fields) == FINE_GRAINED["key"]:
        first = [str(urn) for urn in element.get("downstreams") or []]
        return [str(element.get("transformOperation") or NONE), *first[:1], str(element.get("query") or NONE)]
    return [str(element.get(name, "")) for name in fields]


def pointer(path: Sequence[str]) -> str:
    """Return the path as a JSON pointer (RFC 6901)."""
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in path)


def from_pointer(text: str) -> tuple[str, ...]:
    """Return the steps of a JSON pointer. Some of DataHub's builders also encode URNs as in a URL."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]
    return tuple(unquote(step) if step.startswith("urn%3A") else step for step in steps)
