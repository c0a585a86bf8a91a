"""The tools of `manage.py mcp --profile anthropic`: the nine of Anthropic's memory server, with the same behavior.

- Creating an entity that exists changes nothing.
- A relation may name an entity that doesn't exist. The entity is hidden until it is created.
- Deletes ignore unknown names.
- Responses are neither shortened nor paged.

There are two harmless differences. A name or text that is repeated in one call is stored once. Empty names, too long
names, and texts that PostgreSQL can't store are rejected.

None of these tools searches by meaning, so they don't wait for embeddings. A worker computes the embeddings within a
minute or two, because the tools outside of this profile search the same graph by meaning.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from foundation.operations.errors import Invalid, NotFound
from foundation.people.caller import Caller
from foundation.tools.declaration import Hints, Tool, ToolResponse
from knowledge.graph import operations, queries
from knowledge.graph.entities import add_observations_to, delete_observations_by_text, end_entities, put_entities
from knowledge.graph.relations import delete_relations as delete_matching_relations
from knowledge.graph.relations import put_relations
from knowledge.graph.search.subgraph import subgraph

RESOURCE = "memory://knowledge-graph"


class EntityData(TypedDict):
    name: str
    entityType: str
    observations: list[str]


RelationData = TypedDict("RelationData", {"from": str, "to": str, "relationType": str})


class Addition(TypedDict):
    entityName: str
    contents: list[str]


class Deletion(TypedDict):
    entityName: str
    observations: list[str]


@cache
def advertised() -> dict[str, dict[str, Any]]:
    """Return the tools by name, as Anthropic's server lists them."""
    document = json.loads((Path(__file__).parent / "anthropic.json").read_text())
    return {tool["name"]: tool for tool in document["tools"]}


def create_entities(caller: Caller, entities: list[EntityData]) -> ToolResponse[Any]:
    _require_names(entities)
    change = put_entities(caller, entities, merges=False, encodes=False)
    nodes = queries.nodes_of(change.new)
    new = [_entity(node) for node in nodes]
    return ToolResponse({"entities": new}, text=_pretty(new), whole=True)


def create_relations(caller: Caller, relations: list[RelationData]) -> ToolResponse[Any]:
    writes = put_relations(caller, relations, dangling=True)
    new = [write.response for write in writes if write.relation]
    return ToolResponse({"relations": new}, text=_pretty(new), whole=True)


def add_observations(caller: Caller, observations: list[Addition]) -> ToolResponse[Any]:
    pairs = [(item["entityName"], item["contents"]) for item in observations]
    results = [
        {"entityName": entity.name, "addedObservations": [row.text for row in rows]}
        for entity, rows in add_observations_to(caller, pairs, missing=_not_found, encodes=False)
    ]
    return ToolResponse({"results": results}, text=_pretty(results), whole=True)


def _not_found(name: str) -> NotFound:
    return NotFound(f"Entity with name {name} not found")


def delete_entities(caller: Caller, entityNames: list[str]) -> ToolResponse[Any]:
    end_entities(caller, entityNames)
    return _succeeded("Entities deleted successfully")


def delete_observations(caller: Caller, deletions: list[Deletion]) -> ToolResponse[Any]:
    delete_observations_by_text(caller, [(item["entityName"], item["observations"]) for item in deletions])
    return _succeeded("Observations deleted successfully")


def delete_relations(caller: Caller, relations: list[RelationData]) -> ToolResponse[Any]:
    if relations:
        delete_matching_relations(
            caller,
            operations.DeleteRelations.model_construct(relations=cast("list[operations.RelationData]", relations)),
        )
    return _succeeded("Relations deleted successfully")


def read_graph(caller: Caller) -> ToolResponse[Any]:
    return _graph(caller, dangling=True)


def search_nodes(caller: Caller, query: str) -> ToolResponse[Any]:
    return _graph(caller, holding=query)


def open_nodes(caller: Caller, names: list[str]) -> ToolResponse[Any]:
    return _graph(caller, names=names)


FUNCTIONS: dict[str, tuple[Callable[..., ToolResponse[Any]], dict[str, Any]]] = {
    "create_entities": (create_entities, {"entities": list[EntityData]}),
    "create_relations": (create_relations, {"relations": list[RelationData]}),
    "add_observations": (add_observations, {"observations": list[Addition]}),
    "delete_entities": (delete_entities, {"entityNames": list[str]}),
    "delete_observations": (delete_observations, {"deletions": list[Deletion]}),
    "delete_relations": (delete_relations, {"relations": list[RelationData]}),
    "read_graph": (read_graph, {}),
    "search_nodes": (search_nodes, {"query": str}),
    "open_nodes": (open_nodes, {"names": list[str]}),
}


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


@dataclass(frozen=True)
class ProfileTool(Tool):
    """A tool that is listed with the schemas and texts of Anthropic's server."""

    entry: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, caller: Caller, choice: str = "", /, **arguments: Any) -> ToolResponse[Any]:
        function, parameters = FUNCTIONS[self.name]
        values = {}
        for name, kind in parameters.items():
            if name not in arguments:
                raise Invalid("is missing", field=name, allowed="a value that matches the schema")
            try:
                values[name] = _adapter(kind).validate_python(arguments[name], strict=True)
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False)[0]
                path = ".".join(str(step) for step in (name, *first["loc"]))
                raise Invalid(first["msg"], field=path) from None
        _require_storable(values)
        return function(caller, **values)

    @property
    def advertised(self) -> Mapping[str, Any]:
        return self.entry


def tools() -> list[Tool]:
    return [
        ProfileTool(
            name=name,
            toolset="graph",
            title=entry["title"],
            description=entry["description"],
            choices={},
            hints=Hints(
                read_only=entry["annotations"]["readOnlyHint"],
                destructive=entry["annotations"]["destructiveHint"],
                idempotent=entry["annotations"]["idempotentHint"],
            ),
            entry=entry,
        )
        for name, entry in advertised().items()
    ]


def _require_storable(values: Mapping[str, Any]) -> None:
    text = json.dumps(values, ensure_ascii=False)
    if "\\u0000" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise Invalid("contains a NUL character or half a surrogate pair", allowed="Unicode text")


def _require_names(entities: Sequence[EntityData]) -> None:
    if not all(entity["name"].strip() for entity in entities):
        raise Invalid("is empty", field="name", allowed="a name")


def _entity(node: queries.Node) -> dict[str, Any]:
    texts = [observation.text for observation in node.observations]
    return {"name": node.entity.name, "entityType": node.entity.entity_type, "observations": texts}


def _graph(caller: Caller, **choice: Any) -> ToolResponse[Any]:
    data = subgraph(caller, **choice)
    return ToolResponse(data, text=_pretty(data), whole=True)


def _succeeded(message: str) -> ToolResponse[Any]:
    return ToolResponse({"success": True, "message": message}, text=message, whole=True)


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
