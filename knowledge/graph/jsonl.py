"""Import and export of the JSONL file of Anthropic's memory server.

Each line is an entity or a relation. The lines may have any order, because relations are imported after all entities.
Importing a file again changes nothing, unless the graph was changed in the meantime.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db.models import Prefetch

from knowledge.graph import graphs
from knowledge.graph.entities import put_entities
from knowledge.graph.models import Entity, Observation, Relation
from knowledge.graph.operations import Migrate
from knowledge.graph.relations import put_relations
from memories.contract.errors import Invalid, NotFound
from memories.database import connections
from memories.identity.caller import Caller

NO_PATH = "source_path is required — provide the path to an Anthropic MCP Memory JSONL file"
MAX_BYTES = 100_000_000
BATCH_SIZE = 200
MAX_NAME, MAX_TYPE = 500, 200


@dataclass
class Imported:
    """Counts of an import."""

    entities: int = 0  # entities that were created or got new observations
    relations: int = 0  # relations that were created
    errors: int = 0  # lines that are not JSON
    skipped: int = 0  # lines without a valid entity or relation, and relations whose entities don't exist


def migrate(operation: Migrate, *, caller: Caller) -> Imported:
    if operation.jsonl:
        return import_lines(caller, operation.jsonl.splitlines())
    if not operation.source_path:
        raise Invalid(NO_PATH)
    # A remote caller must not read files of this machine.
    if caller.channel.startswith("mcp-http") or caller.channel in ("rest", "portal", "admin"):
        raise Invalid("is accepted over stdio only", field="source_path", allowed="the text of the file as jsonl")
    path = Path(operation.source_path).expanduser()
    if not path.is_file():
        raise NotFound(f"File not found: {operation.source_path}")
    if path.stat().st_size > MAX_BYTES:
        raise Invalid(f"has {path.stat().st_size:,} bytes", field="source_path", allowed=f"at most {MAX_BYTES:,} bytes")
    return import_lines(caller, path.read_text(encoding="utf-8", errors="replace").splitlines())


def import_lines(caller: Caller, lines: Iterable[str]) -> Imported:
    """Import entities, then relations, in batches. Each batch is one transaction."""
    imported = Imported()
    entities: list[dict[str, Any]] = []
    relations: list[dict[str, Any]] = []
    for line in lines:
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except (ValueError, RecursionError):
            imported.errors += 1
            continue
        if entity := _parse_entity(item):
            entities.append(entity)
        elif relation := _parse_relation(item):
            relations.append(relation)
        else:
            imported.skipped += 1
    for start in range(0, len(entities), BATCH_SIZE):
        change = put_entities(caller, entities[start : start + BATCH_SIZE])
        imported.entities += len(
            {entity.name for entity in change.new} | {name for name, texts in change.added.items() if texts}
        )
    for start in range(0, len(relations), BATCH_SIZE):
        writes = put_relations(caller, relations[start : start + BATCH_SIZE])
        imported.relations += sum(write.relation is not None for write in writes)
        imported.skipped += sum(bool(write.missing) for write in writes)
    connections.analyze_tables(Entity, Observation, Relation)
    return imported


def export_lines(caller: Caller) -> Iterator[str]:
    graph = graphs.graph_of(caller)
    if graph is None:
        return
    live = Observation.objects.filter(ended_at=None).order_by("number").only("entity", "text")
    rows = Entity.objects.filter(graph=graph, deleted_at=None, is_placeholder=False).order_by("number")
    for entity in rows.prefetch_related(Prefetch("observations", queryset=live)).iterator(chunk_size=500):
        texts = [observation.text for observation in entity.observations.all()]
        yield _line(type="entity", name=entity.name, entityType=entity.entity_type, observations=texts)
    relations = Relation.objects.filter(graph=graph, ended_at=None).select_related("source", "target")
    for relation in relations.order_by("number").iterator(chunk_size=500):
        ends = {"from": relation.source.name, "to": relation.target.name}
        yield _line(type="relation", **ends, relationType=relation.relation_type)


def _line(**values: Any) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def _parse_entity(item: Any) -> dict[str, Any] | None:
    if not isinstance(item, dict) or item.get("type") != "entity" or not _is_text(item.get("name"), MAX_NAME):
        return None
    texts = item.get("observations", [])
    if not isinstance(texts, list) or not all(isinstance(text, str) and "\x00" not in text for text in texts):
        return None
    kind = item.get("entityType")
    entity = {"name": item["name"], "observations": [text for text in texts if text.strip()]}
    return entity | ({"entityType": kind} if _is_text(kind, MAX_TYPE) else {})


def _parse_relation(item: Any) -> dict[str, Any] | None:
    if not isinstance(item, dict) or item.get("type") != "relation":
        return None
    limits = {"from": MAX_NAME, "to": MAX_NAME, "relationType": MAX_TYPE}
    if not all(_is_text(item.get(key), limit) for key, limit in limits.items()):
        return None
    return {key: item[key] for key in limits}


def _is_text(value: Any, limit: int) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= limit and "\x00" not in value
