"""Lean JSON schemas for tools. Schemas take up the model's context, so repeated and empty parts are removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.utils.translation import gettext

Schema = dict[str, Any]
ALLOWED = "x-allowed"  # text about allowed values for error messages; hidden from clients
EXACT = "x-exact"  # keywords that only `exact` shows, and None for those that it removes; hidden from models
OR_EMPTY = "x-or-empty"  # whether an empty text counts as absent; only `exact` shows it
HIDDEN = (ALLOWED, EXACT, OR_EMPTY)
TEXT_MAX = 25_000  # characters of a text whose field declares no limit of its own
OBVIOUS = (
    ("minLength", 1),
    ("maxLength", TEXT_MAX),
    ("minimum", 0),
    ("maximum", 1_000_000),
)  # limits that no caller exceeds by accident
SHOWN_LIMITS = range(500, 4_001)  # characters of a text; models see limits in this range
NULL: Schema = {"type": "null"}
EMPTY_TEXT: Schema = {"type": "string", "maxLength": 0}
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
    if isinstance(schema, list):
        return [public(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {key: public(value) for key, value in schema.items() if key not in HIDDEN and not is_obvious(key, value)}


def exact(schema: Any) -> Any:
    """Return the schema for programs, with all limits that are checked. Null stands for an optional value left out."""
    if isinstance(schema, list):
        return [exact(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    changes = schema.get(EXACT, {})
    result = {key: exact(value) for key, value in {**schema, **changes}.items() if key not in HIDDEN}
    result = {key: value for key, value in result.items() if not (key in changes and value is None)}
    if isinstance(schema.get("properties"), Mapping):
        required = schema.get("required", [])
        parts = result["properties"].items()
        result["properties"] = {name: part if name in required else nullable(part) for name, part in parts}
    return {"anyOf": [result, EMPTY_TEXT]} if schema.get(OR_EMPTY) else result


def is_obvious(key: str, value: Any) -> bool:
    return isinstance(value, int) and (key, value) in OBVIOUS


def for_models(schema: Mapping[str, Any]) -> Schema:
    """Return the public schema of a tool's arguments, in which null stands for an argument that is left out.

    In OpenAI's strict mode a model has to pass every argument. The limits of names, of very long texts and of texts
    inside lists and objects are left out, because they would take up more of the model's context than the rare error
    that names them.
    """
    return dict(public(_for_models(schema, is_nested=False)))


def _for_models(schema: Mapping[str, Any], *, is_nested: bool) -> Schema:
    result = {key: value for key, value in schema.items() if not (is_nested and key in ("minLength", "maxLength"))}
    if result.get("maxLength") not in SHOWN_LIMITS or ALLOWED in result:
        result.pop("maxLength", None)
    if result.get("minimum") == 1:  # obvious for a number of results
        del result["minimum"]
    if isinstance(items := result.get("items"), Mapping):
        result["items"] = _for_models(items, is_nested=True)
    if "anyOf" in result:
        result["anyOf"] = [_for_models(option, is_nested=True) for option in result["anyOf"]]
    if "properties" in result:
        required = result.get("required", [])
        result["properties"] = _with_each_enum_once(result["properties"])
        properties = {name: _for_models(part, is_nested=is_nested) for name, part in result["properties"].items()}
        result["properties"] = {name: part if name in required else nullable(part) for name, part in properties.items()}
    return result


def _with_each_enum_once(properties: Mapping[str, Schema]) -> dict[str, Schema]:
    """Let a property whose enum repeats that of an earlier property refer to it."""
    result: dict[str, Schema] = {}
    for name, part in properties.items():
        earlier = next((key for key, value in result.items() if part.get("enum", ()) == value.get("enum")), "")
        if earlier:
            part = {key: value for key, value in part.items() if key != "enum"}
            part["description"] = f"{part.get('description', '')} Values as for {earlier}.".strip()
        result[name] = part
    return result


def nullable(schema: Mapping[str, Any]) -> Schema:
    """Return a schema that also accepts null.

    Gemini's converter loses the description beside an `anyOf`, so a list of types is used where possible. The
    converter of pydantic-ai skips objects that have a list of types, so these are in an `anyOf`.
    """
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], NULL]}
    if has_object(schema):
        return {"anyOf": [dict(schema), NULL]}
    values = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [schema["type"], "null"], **values}


def description_of(schema: Mapping[str, Any]) -> str:
    """Return the description of a schema that `nullable` may have put into an `anyOf`."""
    options = (schema, *schema.get("anyOf", []))
    return next((option["description"] for option in options if "description" in option), "")


def has_object(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object" or ("items" in schema and has_object(schema["items"]))


def without_absent(value: Any, schema: Mapping[str, Any], *, absent: Sequence[Any] = (None, "")) -> Any:
    """Return the value without declared optional properties that are null or empty texts, at every depth.

    Objects of no declared properties, such as metadata, are left as they are.
    """
    if isinstance(value, list) and isinstance(items := schema.get("items"), Mapping):
        return [without_absent(item, items, absent=absent) for item in value]
    if not isinstance(value, Mapping) or "properties" not in schema:
        return value
    required = schema.get("required", [])
    properties = schema["properties"]
    return {
        name: without_absent(part, properties.get(name, {}), absent=absent)
        for name, part in value.items()
        if name in required or name not in properties or part not in absent
    }


def flat(schemas: Mapping[str, Mapping[str, Any]], groups: Mapping[str, Sequence[str]]) -> dict[str, Schema]:
    """Merge the properties of several operations. `schemas` maps the name of each choice to its operation's schema.

    A property's description says which choices take the property. This is left out if all choices take or require it,
    `groups` contains it, only the default choice takes it, or only the choice of the same name takes it.
    """
    properties = {}
    grouped = {name for names in groups.values() for name in names}
    for name, takers in _takers(schemas).items():
        merged = _widest([schemas[key]["properties"][name] for key in takers])
        is_plain = name in grouped or len(takers) == len(schemas) or takers in ([""], [name])
        sentences = [merged.pop("description", ""), "" if is_plain else _for_whom(name, takers, schemas)]
        description = " ".join(filter(None, sentences))
        properties[name] = {**merged, **({"description": description} if description else {})}
    return properties


def _for_whom(name: str, takers: Sequence[str], schemas: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a sentence with the choices that may take the property. The list of choices names those that need it."""
    optional = [key for key in takers if name not in schemas[key].get("required", [])]
    if "" in schemas:  # there is no list of choices, because arguments select them
        return f"For {_describe_takers(takers, schemas)}."
    if not optional:
        return ""
    return (
        f"For {_describe_takers(takers, schemas)}." if optional == list(takers) else f"Also for {', '.join(optional)}."
    )


def taken_together(schemas: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the optional properties that only some operations take, grouped by a description of these operations.

    Groups of fewer than TOGETHER properties are left out.
    """
    groups: dict[str, list[str]] = {}
    for name, takers in _takers(schemas).items():
        if any(name in schemas[key].get("required", []) for key in takers):
            continue
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
    low = schema.get("minimum", "")
    high = schema.get("maximum", "")
    if ALLOWED in schema:
        return str(schema[ALLOWED])
    match schema.get("type"):
        case "string" if schema.get("format") == "date":
            return gettext("a date in ISO 8601, for example 2026-03-31")
        case "string":
            return (
                gettext("text of %(length)s") % {"length": allowed_length(schema)}
                if "maxLength" in schema
                else gettext("text")
            )
        case "integer" | "number":
            if high != "":
                return gettext("%(low)s to %(high)s") % {"low": low, "high": high}
            return gettext("a number from %(low)s") % {"low": low} if low != "" else gettext("a number")
        case "array":
            return _array(schema)
        case "object":
            return f"{{{', '.join(schema['properties'])}}}" if "properties" in schema else gettext("a JSON object")
        case "boolean":
            return gettext("true or false")
        case _:
            return str(schema.get("description", ""))


def allowed_length(schema: Mapping[str, Any]) -> str:
    """Describe the lengths of texts that a schema accepts."""
    return gettext("%(low)s to %(high)s characters") % {"low": schema.get("minLength", 0), "high": schema["maxLength"]}


def _array(schema: Mapping[str, Any]) -> str:
    low = schema.get("minItems", 0)
    high = schema.get("maxItems")
    if high and low == high:
        count = gettext("exactly %(high)s") % {"high": high}
    elif low and high:
        count = gettext("%(low)s to %(high)s") % {"low": low, "high": high}
    else:
        count = gettext("at most %(high)s") % {"high": high} if high else gettext("any number")
    items = schema.get("items", {})
    if items.get("type") == "object":
        return gettext("a list of %(count)s of %(items)s") % {"count": count, "items": allowed(items)}
    return gettext("a list of %(count)s texts") % {"count": count}
