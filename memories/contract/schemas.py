"""Lean JSON schemas for tools. Schemas take up the model's context, so repeated and empty parts are removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Schema = dict[str, Any]
ALLOWED = "x-allowed"  # text about allowed values for error messages; hidden from clients
TEXT_MAX = 25_000  # characters of a text whose field declares no limit of its own
OBVIOUS = (
    ("minLength", 1),
    ("maxLength", TEXT_MAX),
    ("minimum", 0),
    ("maximum", 1_000_000),
)  # limits that no caller exceeds by accident
TOGETHER = 3  # minimum number of properties of the same operations that one sentence describes together
EMPTY: tuple[Any, ...] = (None, "", False, [], {})  # defaults that only mean that the argument is optional


def lean(schema: Mapping[str, Any]) -> Schema:
    """Inline references. Remove titles, unions with null, empty defaults and `additionalProperties`."""
    return _lean(schema, schema.get("$defs", {}))


def _lean(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return _lean({**definitions[name], **{key: schema[key] for key in schema if key != "$ref"}}, definitions)
    options = [option for option in schema.get("anyOf", []) if option != {"type": "null"}]
    rest: Schema = {key: value for key, value in schema.items() if key not in ("anyOf", "$defs", "title")}
    if len(options) == 1:
        return _lean({**options[0], **rest}, definitions)
    if options:
        rest["anyOf"] = [_lean(option, definitions) for option in options]
    if "default" in rest and rest["default"] in EMPTY:
        del rest["default"]
    for key in ("additionalProperties", "propertyNames"):
        rest.pop(key, None)
    if "properties" in rest:
        rest["properties"] = {name: _lean(value, definitions) for name, value in rest["properties"].items()}
    if isinstance(rest.get("items"), Mapping):
        rest["items"] = _lean(rest["items"], definitions)
    return rest


def public(schema: Any) -> Any:
    """Return the schema for clients, without `x-allowed` and without obvious limits."""
    if not isinstance(schema, Mapping):
        return schema
    return {key: public(value) for key, value in schema.items() if key != ALLOWED and not is_obvious(key, value)}


def is_obvious(key: str, value: Any) -> bool:
    return isinstance(value, int) and (key, value) in OBVIOUS


def flat(schemas: Mapping[str, Mapping[str, Any]], groups: Mapping[str, Sequence[str]]) -> dict[str, Schema]:
    """Merge the properties of several operations. `schemas` maps the name of each choice to its operation's schema.

    A property's description says which choices take the property. This is left out in four cases: all choices take the
    property, `groups` contains it, only the default choice takes it, or only the choice of the same name takes it.
    """
    properties = {}
    grouped = {name for names in groups.values() for name in names}
    for name, takers in _takers(schemas).items():
        merged = _widest([schemas[key]["properties"][name] for key in takers])
        is_plain = name in grouped or len(takers) == len(schemas) or takers in ([""], [name])
        sentences = [merged.pop("description", ""), "" if is_plain else f"For {_describe_takers(takers, schemas)}."]
        description = " ".join(filter(None, sentences))
        properties[name] = {**merged, **({"description": description} if description else {})}
    return properties


def taken_together(schemas: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the properties that only some operations take, grouped by a description of these operations.

    Groups of fewer than TOGETHER properties are left out.
    """
    groups: dict[str, list[str]] = {}
    for name, takers in _takers(schemas).items():
        groups.setdefault(_describe_takers(takers, schemas), []).append(name)
    return {takers: names for takers, names in groups.items() if takers and len(names) >= TOGETHER}


def _takers(schemas: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    names = dict.fromkeys(name for schema in schemas.values() for name in schema.get("properties", {}))
    return {name: [key for key, schema in schemas.items() if name in schema.get("properties", {})] for name in names}


def _describe_takers(takers: Sequence[str], choices: Iterable[str]) -> str:
    non_takers = [choice for choice in choices if choice not in takers]
    if not non_takers:
        return ""
    return f"all but {', '.join(non_takers)}" if len(non_takers) < len(takers) else ", ".join(takers)


def _widest(variants: Sequence[Mapping[str, Any]]) -> Schema:
    """Return a schema that accepts every value that at least one of the variants accepts."""
    merged: Schema = dict(variants[0])
    for variant in variants[1:]:
        for key, value in list(merged.items()):
            if key == "description":
                continue
            if key not in variant:
                del merged[key]
            elif key == "enum":
                merged[key] = list(dict.fromkeys([*value, *variant[key]]))
            elif key in ("minLength", "minimum", "minItems"):
                merged[key] = min(value, variant[key])
            elif key in ("maxLength", "maximum", "maxItems"):
                merged[key] = max(value, variant[key])
            elif key == "items":
                merged[key] = _widest([value, variant[key]])
            elif value != variant[key]:
                del merged[key]
    return merged


def at(schema: Mapping[str, Any], path: Sequence[str | int]) -> Mapping[str, Any]:
    """Return the part of the schema for the value at `path`, or an empty mapping."""
    for step in path:
        schema = schema.get("items", {}) if isinstance(step, int) else schema.get("properties", {}).get(step, {})
    return schema


def allowed(schema: Mapping[str, Any]) -> str:
    """Describe the values that a schema accepts in a few words, for error messages."""
    if "enum" in schema:
        return ", ".join(str(value) for value in schema["enum"])
    low, high = schema.get("minimum", ""), schema.get("maximum", "")
    if ALLOWED in schema:
        return str(schema[ALLOWED])
    match schema.get("type"):
        case "string":
            return (
                f"text of {schema.get('minLength', 0)} to {schema['maxLength']} characters"
                if "maxLength" in schema
                else "text"
            )
        case "integer" | "number":
            return f"{low} to {high}" if high != "" else f"a number from {low}" if low != "" else "a number"
        case "array":
            return _array(schema)
        case "object":
            return f"{{{', '.join(schema['properties'])}}}" if "properties" in schema else "a JSON object"
        case "boolean":
            return "true or false"
        case _:
            return str(schema.get("description", ""))


def _array(schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minItems", 0), schema.get("maxItems")
    count = f"{low} to {high}" if low and high else f"at most {high}" if high else "any number"
    count = f"exactly {high}" if high and low == high else count
    items = schema.get("items", {})
    kind = allowed(items) if items.get("type") == "object" else "texts"
    return f"a list of {count} {'of ' if items.get('type') == 'object' else ''}{kind}"
