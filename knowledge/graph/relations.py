"""Writes to the relations of a knowledge graph. Each call is one transaction that locks the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import NotFound
from foundation.people.caller import Caller
from knowledge.graph import graphs, names
from knowledge.graph.entities import GraphChange, not_found
from knowledge.graph.models import Entity, Graph, Relation
from knowledge.graph.operations import CreateRelations, DeleteRelations, EndRelation

Edge = tuple[Entity, Entity, str, str]  # source, target, type, context


@dataclass(frozen=True)
class RelationWrite:
    """The result of creating one relation.

    `missing` is the name of an end that doesn't exist, or "". `relation` is None if an end is missing, or if the same
    relation existed already.
    """

    item: Mapping[str, Any]
    relation: Relation | None = None
    missing: str = ""

    @property
    def response(self) -> dict[str, Any]:
        return {key: self.item[key] for key in ("from", "to", "relationType")}


def create_relations(caller: Caller, operation: CreateRelations) -> GraphChange:
    """Create relations between existing entities. An error is returned for each one that can't be created."""
    change = GraphChange()
    for write in put_relations(caller, operation.relations, inverses=True, key=names.nfc):
        if write.missing:
            change.errors.append(not_found(write.missing).message)
            change.relations.append({"error": change.errors[-1]})
        elif write.relation is None:
            change.relations.append(write.response | {"error": "Relation already exists"})
        else:
            change.relations.append(write.response | {"id": write.relation.number})
    return change


def put_relations(
    caller: Caller,
    items: Sequence[Mapping[str, Any]],
    *,
    dangling: bool = False,
    inverses: bool = False,
    key: names.Key = names.exact,
) -> list[RelationWrite]:
    """Create relations by the names of their ends.

    With `dangling`, an end that doesn't exist is created as a hidden placeholder. With `inverses`, the inverse of each
    new relation is created too, if its type has one. `key` decides which names are the same.
    """
    end_names = dict.fromkeys(name for item in items for name in (item["from"], item["to"]))
    with graphs.locked_graph(caller) as graph:
        by_name = names.find(graph, end_names, key, placeholders=dangling)
        if dangling:
            by_name |= _placeholders(graph, [name for name in end_names if name not in by_name], key)
        writes = [
            RelationWrite(item, missing=next((name for name in (item["from"], item["to"]) if name not in by_name), ""))
            for item in items
        ]
        edges = [
            (by_name[item["from"]], by_name[item["to"]], item["relationType"], item.get("context", ""))
            for item in (write.item for write in writes if not write.missing)
        ]
        created = iter(relate(graph, edges, inverses=inverses))
    return [write if write.missing else replace(write, relation=next(created)) for write in writes]


def _placeholders(graph: Graph, missing_names: Sequence[str], key: names.Key) -> dict[str, Entity]:
    spellings = {key(name): name for name in reversed(missing_names)}  # the first spelling of each name
    rows = {
        form: Entity(graph=graph, number=graphs.take_number(graph), name=name, is_placeholder=True)
        for form, name in reversed(spellings.items())
    }
    Entity.objects.bulk_create(rows.values())
    return {name: rows[key(name)] for name in missing_names}


def relate(graph: Graph, edges: Sequence[Edge], *, inverses: bool = True) -> list[Relation | None]:
    """Create relations in a locked graph. With `inverses`, also create the inverse of each new one whose type has one.

    Returns, for each edge, the new relation, or None if the relation existed already.
    """
    ends = {end.pk for edge in edges for end in edge[:2]}
    rows = Relation.objects.filter(source__in=ends, target__in=ends, ended_at=None)
    present_keys = set(rows.values_list("source", "target", "relation_type"))
    relations: list[Relation | None] = []
    new_rows: list[Relation] = []
    for source, target, kind, context in edges:
        relation = _new_relation(graph, (source, target, kind, context), present_keys)
        relations.append(relation)
        inverse = settings.GRAPH_INVERSES.get(kind) if inverses and relation else None
        opposite = (
            _new_relation(graph, (target, source, inverse, f"Inverse of {kind}"), present_keys) if inverse else None
        )
        new_rows += [row for row in (relation, opposite) if row]
    Relation.objects.bulk_create(new_rows)
    return relations


def _new_relation(graph: Graph, edge: Edge, present_keys: set[tuple[UUID, UUID, str]]) -> Relation | None:
    """Return an unsaved relation and add its key to `present_keys`, or return None if the key is already in it."""
    source, target, kind, context = edge
    key = (source.pk, target.pk, kind)
    if key in present_keys:
        return None
    present_keys.add(key)
    number = graphs.take_number(graph)
    return Relation(graph=graph, number=number, source=source, target=target, relation_type=kind, context=context or "")


def _ends(graph: Graph, item: Mapping[str, Any]) -> list[Entity]:
    ends = [item["from"], item["to"]]
    by_name = names.find(graph, ends, placeholders=True)
    return [by_name[name] for name in ends if name in by_name]


def delete_relations(caller: Caller, operation: DeleteRelations) -> GraphChange:
    """End relations by source, target and type. An error is returned for each one that doesn't exist."""
    change = GraphChange()
    with graphs.locked_graph(caller) as graph:
        for item in operation.relations:
            ends = _ends(graph, item)
            if len(ends) < 2:
                change.errors.append(f"Entity not found: {item['from']} or {item['to']}")
                continue
            rows = Relation.objects.filter(
                source=ends[0], target=ends[1], relation_type=item["relationType"], ended_at=None
            )
            now = timezone.now()
            if rows.update(ended_at=now, deleted_at=now):
                change.deleted.append({"from": item["from"], "to": item["to"], "relationType": item["relationType"]})
            else:
                change.errors.append(f"Relation not found: {item['from']} -> {item['to']} ({item['relationType']})")
    return change


def end_relation(caller: Caller, operation: EndRelation) -> tuple[Relation, Relation | None]:
    """End a relation and its inverse, if it has one. Ending it again changes nothing.

    Returns the relation, and its inverse if this call ended it.
    """
    with graphs.locked_graph(caller) as graph:
        relation = (
            Relation.objects.select_related("source", "target")
            .filter(graph=graph, number=operation.relation_id)
            .first()
        )
        if relation is None:
            raise NotFound(gettext("Relation not found: %(relation_id)s") % {"relation_id": operation.relation_id})
        if relation.ended_at:
            return relation, None
        now = timezone.now()
        inverse = Relation.objects.filter(
            source=relation.target_id,
            target=relation.source_id,
            relation_type=settings.GRAPH_INVERSES.get(relation.relation_type, ""),
            ended_at=None,
        ).first()
        Relation.objects.filter(pk__in=[row.pk for row in (relation, inverse) if row]).update(ended_at=now)
        relation.ended_at = now
    return relation, inverse
