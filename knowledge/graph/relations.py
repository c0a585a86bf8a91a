"""Every change of relations. A call is one transaction in which its graph is locked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from knowledge.graph import graphs
from knowledge.graph.entities import GraphChange, live, not_found
from knowledge.graph.models import Entity, Graph, Relation
from knowledge.graph.operations import CreateRelations, DeleteRelations, EndRelation
from memories.contract.errors import NotFound
from memories.identity.caller import Caller

Edge = tuple[Entity, Entity, str, str]  # source, target, type, context


@dataclass(frozen=True)
class RelationWrite:
    """What became of one relation: the new one, None where it is there already, or the name of an end that is not."""

    item: Mapping[str, Any]
    relation: Relation | None = None
    missing: str = ""

    @property
    def shape(self) -> dict[str, Any]:
        return {key: self.item[key] for key in ("from", "to", "relationType")}


def create_relations(operation: CreateRelations, *, caller: Caller) -> GraphChange:
    """Creates relations between entities that exist; each that can't be is told beside the others."""
    change = GraphChange()
    for put in put_relations(caller, operation.relations, inverses=True):
        if put.missing:
            change.errors.append(not_found(put.missing).message)
            change.relations.append({"error": change.errors[-1]})
        elif put.relation is None:
            change.relations.append(put.shape | {"error": "Relation already exists"})
        else:
            change.relations.append(put.shape | {"id": put.relation.number})
    return change


def put_relations(
    caller: Caller, items: Sequence[Mapping[str, Any]], *, dangling: bool = False, inverses: bool = False
) -> list[RelationWrite]:
    """Relations by the names of their ends; with `dangling`, an end that is not there becomes a hidden placeholder."""
    names = dict.fromkeys(name for item in items for name in (item["from"], item["to"]))
    with graphs.changing(caller) as graph:
        by_name = {entity.name: entity for entity in live(graph).filter(name__in=names)}
        if dangling:
            by_name |= _placeholders(graph, [name for name in names if name not in by_name])
        else:
            by_name = {name: entity for name, entity in by_name.items() if not entity.is_placeholder}
        puts = [
            RelationWrite(item, missing=next((name for name in (item["from"], item["to"]) if name not in by_name), ""))
            for item in items
        ]
        edges = [
            (by_name[put.item["from"]], by_name[put.item["to"]], put.item["relationType"], put.item.get("context", ""))
            for put in puts
            if not put.missing
        ]
        news = iter(relate(graph, edges, inverses=inverses))
    return [put if put.missing else replace(put, relation=next(news)) for put in puts]


def _placeholders(graph: Graph, names: Sequence[str]) -> dict[str, Entity]:
    rows = [Entity(graph=graph, number=graphs.take_number(graph), name=name, is_placeholder=True) for name in names]
    return {entity.name: entity for entity in Entity.objects.bulk_create(rows)}


def relate(graph: Graph, edges: Sequence[Edge], *, inverses: bool = True) -> list[Relation | None]:
    """New relations of a locked graph, with their inverses where a type has one; None for one that is there already."""
    ends = {end.pk for edge in edges for end in edge[:2]}
    rows = Relation.objects.filter(source__in=ends, target__in=ends, ended_at=None)
    present_keys = set(rows.values_list("source", "target", "relation_type"))
    answers: list[Relation | None] = []
    news: list[Relation] = []
    for source, target, kind, context in edges:
        relation = _unless_there(graph, (source, target, kind, context), present_keys)
        answers.append(relation)
        inverse = settings.GRAPH_INVERSES.get(kind) if inverses and relation else None
        opposite = (
            _unless_there(graph, (target, source, inverse, f"Inverse of {kind}"), present_keys) if inverse else None
        )
        news += [row for row in (relation, opposite) if row]
    Relation.objects.bulk_create(news)
    return answers


def _unless_there(graph: Graph, edge: Edge, present_keys: set[tuple[UUID, UUID, str]]) -> Relation | None:
    source, target, kind, context = edge
    key = (source.pk, target.pk, kind)
    if key in present_keys:
        return None
    present_keys.add(key)
    number = graphs.take_number(graph)
    return Relation(graph=graph, number=number, source=source, target=target, relation_type=kind, context=context or "")


def _ends(graph: Graph, item: Mapping[str, Any]) -> list[Entity]:
    """Both ends of a relation, of those that are there."""
    names = [item["from"], item["to"]]
    by_name = {entity.name: entity for entity in live(graph).filter(name__in=names)}
    return [by_name[name] for name in names if name in by_name]


def delete_relations(operation: DeleteRelations, *, caller: Caller) -> GraphChange:
    """Ends relations by both ends and type; each that is not there is told beside the others."""
    change = GraphChange()
    with graphs.changing(caller) as graph:
        for item in operation.relations:
            ends = _ends(graph, item)
            if len(ends) < 2:
                change.errors.append(f"Entity not found: {item['from']} or {item['to']}")
                continue
            rows = Relation.objects.filter(
                source=ends[0], target=ends[1], relation_type=item["relationType"], ended_at=None
            )
            if rows.update(ended_at=timezone.now()):
                change.deleted.append({"from": item["from"], "to": item["to"], "relationType": item["relationType"]})
            else:
                change.errors.append(f"Relation not found: {item['from']} -> {item['to']} ({item['relationType']})")
    return change


def end_relation(operation: EndRelation, *, caller: Caller) -> tuple[Relation, Relation | None]:
    """Ends a relation, and its inverse where the type has one; ending twice changes nothing."""
    with graphs.changing(caller) as graph:
        relation = (
            Relation.objects.select_related("source", "target")
            .filter(graph=graph, number=operation.relation_id)
            .first()
        )
        if relation is None:
            raise NotFound(f"Relation not found: {operation.relation_id}")
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
