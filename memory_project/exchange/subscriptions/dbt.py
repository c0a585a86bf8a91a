"""Descriptions of models, sources and columns in dbt's manifest.json and property files (schema.yml)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from foundation.operations.errors import Invalid
from foundation.operations.fields import MAX_COLUMNS
from memory_project.exchange.imports.formats.markdown import section_rows
from memory_project.exchange.imports.formats.memory_rows import problem_row
from memory_project.exchange.imports.rows import ImportedRow
from memory_project.exchange.subscriptions.entities import Table, urn_of_table

KINDS = ("model", "seed", "snapshot", "source")
IS_PROPERTIES = re.compile(r"^(models|sources|seeds|snapshots):", re.MULTILINE)
# Every scalar stays a text, so that no value needs much time to compute.
LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
MAX_DEPTH = 20  # nesting levels of a property file
MAX_NAME = 200  # characters
MAX_RELEVANCE = 300  # characters of a column's description beside the memory
JINJA = "{{"


def manifest_rows(path: str, content: bytes) -> Iterator[ImportedRow]:
    """Yield a row for each described model, seed, snapshot and source. A manifest of something else has no rows."""
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as error:
        yield problem_row(path, f"can't be read as JSON ({str(error)[:100]})", key=path)
        return
    about = manifest.get("metadata") if isinstance(manifest, dict) else None
    if not isinstance(about, dict) or "dbt_schema_version" not in about:
        return
    for section in ("nodes", "sources"):
        nodes = manifest.get(section)
        if not isinstance(nodes, dict):
            continue
        for unique_id, node in sorted(nodes.items()):
            if isinstance(node, dict) and node.get("resource_type") in KINDS:
                name = node.get("identifier") or node.get("alias") or node.get("name")
                table = Table(*map(_name, (about.get("adapter_type"), node.get("database"), node.get("schema"), name)))
                yield from _rows(path, unique_id, str(node["resource_type"]), table, node)


def property_rows(path: str, text: str) -> Iterator[ImportedRow]:
    """Yield a row for each described table of a property file. Other YAML files have no rows."""
    if not IS_PROPERTIES.search(text):
        return
    try:
        _check_events(text)
        properties = yaml.load(text, Loader=LOADER)
    except Invalid as error:
        yield problem_row(path, error.message, key=path)
        return
    except (yaml.YAMLError, ValueError) as error:
        problem = getattr(error, "problem", "") or str(error)
        yield problem_row(path, f"can't be read as YAML ({problem[:100]})", key=path)
        return
    for kind in ("model", "seed", "snapshot"):
        for node in _objects(properties, f"{kind}s"):
            config = node.get("config")
            alias = config.get("alias") if isinstance(config, dict) else None
            table = Table("", "", "", _name(alias or node.get("alias") or node.get("name")))
            yield from _rows(path, f"{kind}.{_name(node.get('name'))}", kind, table, node)
    for source in _objects(properties, "sources"):
        database = _name(source.get("database"))
        schema = _name(source.get("schema") or source.get("name"))
        for node in _objects(source, "tables"):
            table = Table("", database, schema, _name(node.get("identifier") or node.get("name")))
            key = f"source.{_name(source.get('name'))}.{_name(node.get('name'))}"
            yield from _rows(path, key, "source", table, node)


def _rows(path: str, unique_id: str, kind: str, table: Table, node: Mapping[str, Any]) -> Iterator[ImportedRow]:
    description = _text(node.get("description"))
    columns = _described_columns(node.get("columns"))
    if not table.name or not (description or columns):
        return
    key = f"{path}#{unique_id}"
    if JINJA in description or any(JINJA in text for text in columns.values()):
        yield problem_row(path, f"{unique_id[:100]} has a doc block, which only manifest.json resolves", key=key)
        return
    urn, note = urn_of_table(table)
    lines = [f"- {name}: {text}" for name, text in columns.items()]
    parts = [
        f"# {table.qualified_name} (dbt {kind})",
        description,
        *(["Columns:\n\n" + "\n".join(lines)] if lines else []),
    ]
    data = {
        "source": "automation",
        "tags": ["dbt"],
        "entity_urns": [urn] if urn else [],
        "related_columns": [
            {"urn": urn, "column": name, "relevance": text[:MAX_RELEVANCE]} for name, text in columns.items() if urn
        ][:MAX_COLUMNS],
        "metadata": {"dbt": unique_id[:MAX_NAME], **({"entity_note": note} if note else {})},
    }
    yield from section_rows(path, "\n\n".join(filter(None, parts)), data, key=key)


def _described_columns(columns: Any) -> dict[str, str]:
    """Return the descriptions by column. A manifest has an object of columns, and a property file a list."""
    found = list(columns.values()) if isinstance(columns, dict) else columns
    if not isinstance(found, list):
        return {}
    described = [
        (_name(column.get("name")), _text(column.get("description"))) for column in found if isinstance(column, dict)
    ]
    return {name: " ".join(text.split()) for name, text in described if name and text}


def _objects(parent: Any, name: str) -> list[dict[str, Any]]:
    values = parent.get(name) if isinstance(parent, dict) else None
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _name(value: Any) -> str:
    return " ".join(value.split())[:MAX_NAME] if isinstance(value, str) else ""


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _check_events(text: str) -> None:
    """Check the structure before anything is built. Aliases could multiply a text, and nesting exhausts the stack."""
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise Invalid("has aliases", field="YAML", allowed="plain keys and values")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise Invalid(f"has more than {MAX_DEPTH} levels", field="YAML")
