"""Import and export of the JSONL file of Anthropic's memory server.

Each line is an entity or a relation. The lines may have any order, because relations are imported after all entities.
Ends of relations that don't exist are created as hidden placeholders. Entities of the graph keep their type. Importing
a file again changes nothing, unless texts were deleted in the meantime. If an exported file is imported into an empty
graph, its export is the same file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Prefetch

from foundation.database import connections
from foundation.operations.errors import Invalid, NotFound
from foundation.operations.fields import UNSTORABLE
from foundation.people.caller import Caller
from knowledge.graph import dumps, graphs, names
from knowledge.graph.entities import put_entities
from knowledge.graph.models import Entity, Observation, Relation
from knowledge.graph.operations import MAX_NAME, Migrate
from knowledge.graph.relations import put_relations

NO_TEXT = "jsonl is required: the text of an Anthropic MCP Memory JSONL file"
NO_PATH = "source_path is required — provide the path to an Anthropic MCP Memory JSONL file"
MAX_BYTES = 100_000_000
BATCH_SIZE = 200
# Numbers of batches. Without statistics, PostgreSQL finds names in a growing graph by reading the whole graph.
ANALYZED_BEFORE = (1, 10, 100, 1_000)
MAX_TYPE = 200  # maximum number of characters of an entity's or a relation's type
MAX_PROBLEMS = 100  # maximum number of problems in a response
RELATION_LIMITS = {"from": MAX_NAME, "to": MAX_NAME, "relationType": MAX_TYPE}
JSON_SPACE = " \t\r\n"  # str.strip() would also remove separators that JSON doesn't allow around a value
UNSTORABLE_TEXT = "a NUL character or half a surrogate pair"


class _Unusable(ValueError):
    """A line, or a part of it, can't be imported. The message says why."""


@dataclass
class Imported:
    """The result of an import."""

    recognized: int = 0  # entities and relations of the file, also those that the graph has already
    entities: int = 0  # entities that were created or got new observations
    relations: int = 0  # relations that were created
    errors: int = 0  # lines that are not JSON
    skipped: int = 0  # lines of JSON that are neither an entity nor a relation, or that can't be stored
    problems: list[str] = field(default_factory=list)  # "line 3: …", for each line that was not imported as it is


@dataclass
class _Items:
    """The parsed lines of a file."""

    entities: list[dict[str, Any]] = field(default_factory=list)
    relations: list[dict[str, Any]] = field(default_factory=list)
    first_lines: dict[str, int] = field(default_factory=dict)  # by name, the first line with this spelling


def migrate(caller: Caller, operation: Migrate) -> Imported:
    if operation.jsonl:
        return import_lines(caller, operation.jsonl.split("\n"))
    if not operation.source_path:
        raise Invalid(NO_TEXT if _is_remote(caller) else NO_PATH)
    if _is_remote(caller):
        raise Invalid("is accepted over stdio only", field="source_path", allowed="the text of the file as jsonl")
    path = Path(operation.source_path).expanduser()
    if not path.is_file():
        raise NotFound(f"File not found: {operation.source_path}")
    if path.stat().st_size > MAX_BYTES:
        raise Invalid(f"has {path.stat().st_size:,} bytes", field="source_path", allowed=f"at most {MAX_BYTES:,} bytes")
    # In binary mode, lines end at \n alone. JSON texts may contain all other line separators of Unicode.
    with path.open("rb") as file:
        return import_lines(caller, file)


def _is_remote(caller: Caller) -> bool:
    """Return whether the caller is on another machine, and so must not read files of this one."""
    return caller.channel.startswith("mcp-http") or caller.channel in ("rest", "portal", "admin")


def import_lines(caller: Caller, lines: Iterable[str | bytes]) -> Imported:
    """Import entities, then relations, in batches. Each batch is one transaction.

    The lines may also be those of one JSON value that holds entities and relations (dumps.py). Names are compared with
    those of the graph after normalization. Different spellings within the file stay apart.
    """
    imported = Imported()
    items = _read(lines, imported)
    imported.recognized = len(items.entities) + len(items.relations)
    apart = {name for group in names.groups(items.first_lines) for name in group}
    imported.problems += _collisions(items.first_lines)

    def key(name: str) -> str:
        return name if name in apart else names.nfc(name)

    for number, start in enumerate(range(0, len(items.entities), BATCH_SIZE)):
        if number in ANALYZED_BEFORE:
            connections.analyze_tables(Entity, Observation)
        change = put_entities(caller, items.entities[start : start + BATCH_SIZE], key=key, updates=False)
        imported.problems += [
            f"{names.shortened(entity.name)} keeps its type {names.shortened(entity.entity_type)}, "
            f"which is {names.shortened(other)} in the file"
            for entity, other in change.kept_types
        ]
        imported.entities += len(
            {entity.name for entity in change.new} | {name for name, texts in change.added.items() if texts}
        )
    for start in range(0, len(items.relations), BATCH_SIZE):
        writes = put_relations(caller, items.relations[start : start + BATCH_SIZE], dangling=True, key=key)
        imported.relations += sum(write.relation is not None for write in writes)
    connections.analyze_tables(Entity, Observation, Relation)
    return imported


def _read(lines: Iterable[str | bytes], imported: Imported) -> _Items:
    lines = list(lines)
    dumped = _dumped(lines)
    unit, values = ("item", dumped) if dumped else ("line", lines)
    items = _Items()
    for number, line in enumerate(values, start=1):
        try:
            item = _parse(line)
        except (_Unusable, RecursionError, ValueError) as error:
            is_json = isinstance(error, _Unusable)
            imported.errors = imported.errors + (not is_json)
            imported.skipped = imported.skipped + is_json
            imported.problems.append(f"{unit} {number}: {error if is_json else 'is not JSON in UTF-8'}")
            continue
        if item is None:
            continue
        imported.problems += [f"{unit} {number}: {problem}" for problem in item.pop("problems", [])]
        ends = [item["name"]] if "name" in item else [item["from"], item["to"]]
        for name in ends:
            items.first_lines.setdefault(name, number)
        (items.entities if "name" in item else items.relations).append(item)
    return items


def _dumped(lines: Sequence[str | bytes]) -> list[Any]:
    """Return the items of a file that is one JSON value, or [] if each of its lines is one."""
    texts = (_text_of(line) for line in lines)
    try:
        first = next(filter(None, texts), "")
        if dumps.kind_of(_loads(first)):
            return []
    except (ValueError, RecursionError):
        pass  # a value that goes on in the next line
    try:
        return dumps.items_of(_loads("\n".join(map(_text_of, lines))))
    except (ValueError, RecursionError):
        return []


def _text_of(line: str | bytes) -> str:
    """Return a line without what surrounds its JSON. Raises ValueError if it isn't UTF-8."""
    return (line if isinstance(line, str) else line.decode()).removeprefix("\ufeff").strip(JSON_SPACE)


def _loads(text: str) -> Any:
    return json.loads(text, parse_constant=_no_constant)


def _no_constant(text: str) -> Any:
    raise ValueError(f"has {text}, which is not JSON")


def _collisions(first_lines: Mapping[str, int]) -> list[str]:
    return [
        f"line {first_lines[name]}: the name {_quoted(name)} is another Unicode form of the name in line "
        f"{first_lines[group[0]]}; both are kept"
        for group in names.groups(first_lines)
        for name in group[1:]
    ]


def export_lines(caller: Caller) -> Iterator[str]:
    graph = graphs.graph_of(caller)
    if graph is None:
        return
    live = Observation.objects.filter(ended_at=None).order_by("number").only("entity", "text")
    rows = Entity.objects.filter(graph=graph, deleted_at=None, is_placeholder=False).order_by("number")
    for entity in rows.prefetch_related(Prefetch("observations", queryset=live)).iterator(chunk_size=500):
        texts = [observation.text for observation in entity.observations.all()]
        yield _json({"type": "entity", "name": entity.name, "entityType": entity.entity_type, "observations": texts})
    relations = Relation.objects.filter(graph=graph, ended_at=None).select_related("source", "target")
    for relation in relations.order_by("number").iterator(chunk_size=500):
        ends = {"from": relation.source.name, "to": relation.target.name}
        yield _json({"type": "relation", **ends, "relationType": relation.relation_type})


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _parse(line: Any) -> dict[str, Any] | None:
    """Return the entity or relation of a line or of a dump's item, or None if the line is blank.

    Raises ValueError if it isn't JSON, and _Unusable if it is neither an entity nor a relation.
    """
    item = line
    if isinstance(line, str | bytes):
        text = _text_of(line)
        if not text:
            return None
        item = _loads(text)
    match dumps.kind_of(item):
        case dumps.ENTITY:
            return _parse_entity(item)
        case dumps.RELATION:
            return _parse_relation(item)
        case _:
            raise _Unusable("is neither an entity nor a relation")


def _parse_entity(item: dict[str, Any]) -> dict[str, Any]:
    name = _text(item, "name", MAX_NAME)
    values = item.get("observations") or []
    if not name.strip():
        raise _Unusable("name is blank")
    if not isinstance(values, list):
        raise _Unusable("observations is not a list")
    kind = ""
    texts = []
    problems = []
    try:
        kind = _text(item, "entityType", MAX_TYPE) if item.get("entityType") else ""
    except _Unusable as error:
        problems.append(f"{error}; imported as {settings.GRAPH_DEFAULT_TYPE}")
    for number, value in enumerate(values):
        # Other servers accept any JSON. It is kept as text, except null and "", which say nothing.
        text = value or "" if isinstance(value, str | None) else _json(value)
        if UNSTORABLE.search(text):
            problems.append(f"observations[{number}] contains {UNSTORABLE_TEXT}; imported without it")
        elif text:
            texts.append(text)
    return {"name": name, "entityType": kind, "observations": texts, "problems": problems}


def _parse_relation(item: dict[str, Any]) -> dict[str, Any]:
    relation = {key: _text(item, key, limit) for key, limit in RELATION_LIMITS.items()}
    if not relation["from"] or not relation["to"]:
        raise _Unusable("from or to is empty")
    return relation


def _text(item: Mapping[str, Any], key: str, limit: int) -> str:
    value = item.get(key)
    if not isinstance(value, str):
        raise _Unusable(f"{key} is not a text" if key in item else f"{key} is missing")
    if len(value) > limit:
        raise _Unusable(f"{key} has {len(value):,} characters, at most {limit:,} are allowed")
    if UNSTORABLE.search(value):
        raise _Unusable(f"{key} contains {UNSTORABLE_TEXT}")
    return value


def _quoted(name: str) -> str:
    return repr(names.shortened(name))
