"""The tool reference of docs/mcp.md, generated from the operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from foundation.operations import schemas
from foundation.operations.operation import Operation
from foundation.tools.declaration import Tool


def reference(tools: Sequence[Tool]) -> str:
    """Return Markdown with a section for each tool and a table row for each operation."""
    return "\n".join(line for tool in tools for line in _section(tool))


def _section(tool: Tool) -> Iterator[str]:
    yield f"### {tool.name}\n"
    yield " ".join(tool.description.split()) + "\n"
    yield f"| {tool.selector or 'with'} | takes | does |"
    yield "|---|---|---|"
    earlier_notes: set[str] = set()
    for choice in tool.choices:
        operation = tool.operation(choice)
        name = f"`{choice}`" if choice else ""
        yield f"| {name} | {_takes(operation, earlier_notes)} | {operation.short_description()} |"
    yield ""


def _takes(operation: type[Operation], earlier_notes: set[str]) -> str:
    """List the fields, required ones first and in bold. A field's limits are given only once per tool."""
    schema = operation.input_schema()
    required = schema.get("required", [])
    properties = schema.get("properties", {})
    parts = [_field(name, properties[name], earlier_notes, is_required=True) for name in required]
    optional = {name: value for name, value in properties.items() if name not in required}
    parts += [_field(name, value, earlier_notes, is_required=False) for name, value in optional.items()]
    return ", ".join(parts)


def _field(name: str, schema: Mapping[str, Any], earlier_notes: set[str], *, is_required: bool) -> str:
    notes = [note for note in (_limit(schema), _default(schema)) if note and f"{name} {note}" not in earlier_notes]
    earlier_notes.update(f"{name} {note}" for note in notes)
    text = f"**{name}**" if is_required else name
    return f"{text} ({'; '.join(notes)})" if notes else text


def _limit(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(schema["enum"])
    if schema.get("type") == "array":
        low = schema.get("minItems", 0)
        high = schema.get("maxItems", 0)
        if low and low < high:
            return f"{low}–{high}"
        if high > 1:
            return f"≤ {high}"
        return "one" if high else ""
    if "maximum" in schema and (schema.get("minimum", 0), schema["maximum"]) != (0, 1_000_000):
        return f"{schema.get('minimum', 0)}–{schema['maximum']}"
    if schema.get("type") == "string" and "maxLength" in schema and schemas.ALLOWED not in schema:
        return f"{schema.get('minLength', 0) or '≤ '}{'–' if schema.get('minLength') else ''}{schema['maxLength']:,}"
    return ""


def _default(schema: Mapping[str, Any]) -> str:
    return f"default {schema['default']}" if "default" in schema else ""
