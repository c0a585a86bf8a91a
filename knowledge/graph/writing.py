"""Every change of entities, observations and relations. A call is one transaction in which its graph is locked; vectors
are made afterwards, and where the embedder is away a job is left for later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from knowledge.graph import graphs
from knowledge.graph.finding import vectors
from knowledge.graph.finding.grams import folded, grams
from knowledge.graph.models import Entity, Graph, Observation, Relation
from knowledge.graph.operations import (
    OBSERVATION_MOST,
    AddObservations,
    CreateEntities,
    CreateRelations,
    DeleteEntities,
    DeleteObservations,
    DeleteRelations,
    EndRelation,
)
from memories.access import Caller
from memories.contract.errors import Invalid, NotFound
from memories.contract.operations import carries_out


@dataclass
class Change:
    """What a call did: entities it touched, what it could not do, and of some calls what is new."""

    entities: list[Entity] = field(default_factory=list)
    relations: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    added: dict[str, list[str]] = field(default_factory=dict)  # entity → texts
    deleted: list[Any] = field(default_factory=list)
    new: list[Entity] = field(default_factory=list)


def not_found(name: str) -> NotFound:
    return NotFound(f"Entity not found: {name}")


# -- entities ---------------------------------------------------------------------------------------------


@carries_out(CreateEntities)
def create_entities(ask: CreateEntities, *, caller: Caller) -> Change:
    """Creates entities, or adds to those that are there: what is not said of them stays as it is."""
    return put_entities(caller, ask.entities)


def put_entities(caller: Caller, items: Iterable[Mapping[str, Any]], *, merges: bool = True) -> Change:
    """With `merges` off, an entity that exists is left alone, as Anthropic's server does."""
    change = Change()
    with graphs.changing(caller) as graph:
        for item in items:
            entity = live(graph).filter(name=item["name"]).first()
            exists = entity is not None and not entity.is_placeholder
            if entity is None or entity.is_placeholder:
                entity = _make(graph, item, entity)
                change.new.append(entity)
            elif merges:
                _update(entity, item)
            if not exists or merges:
                added = observe(graph, entity, item.get("observations", []))
                change.added.setdefault(entity.name, []).extend(row.text for row in added)
                change.entities.append(entity)
    change.entities = list({entity.pk: entity for entity in change.entities}.values())
    vectors.index_soon(change.entities)
    return change


def live(graph: Graph) -> Any:
    return Entity.objects.filter(graph=graph, deleted_at=None)


def _make(graph: Graph, item: Mapping[str, Any], placeholder: Entity | None) -> Entity:
    entity = placeholder or Entity(graph=graph, number=graphs.take_number(graph), name=item["name"])
    entity.is_placeholder = False
    entity.entity_type = item.get("entityType") or settings.GRAPH_DEFAULT_TYPE
    entity.status = item.get("status") or settings.GRAPH_DEFAULT_STATUS
    entity.urn = item.get("urn") or entity.urn
    return _saved(entity)


def put_entity(graph: Graph, name: str, entity_type: str) -> Entity:
    """A new entity of a locked graph, or the placeholder of this name made whole."""
    return _make(graph, {"name": name, "entityType": entity_type}, live(graph).filter(name=name).first())


def _saved(entity: Entity) -> Entity:
    entity.folded = folded(f"{entity.name}\n{entity.entity_type}")
    entity.grams = grams(entity.folded)
    entity.updated_at = timezone.now()
    entity.save()
    return entity


def _update(entity: Entity, item: Mapping[str, Any]) -> None:
    """Only what was said: type and status of an entity are not reset by a call that names neither."""
    changes = {"entity_type": item.get("entityType"), "status": item.get("status"), "urn": item.get("urn")}
    changes = {name: value for name, value in changes.items() if value and value != getattr(entity, name)}
    if changes:
        for name, value in changes.items():
            setattr(entity, name, value)
        _saved(entity)


@carries_out(DeleteEntities)
def delete_entities(ask: DeleteEntities, *, caller: Caller) -> Change:
    """Deletes entities with their observations and relations; names that are not there are errors of their own."""
    change = Change()
    with graphs.changing(caller) as graph:
        now = timezone.now()
        for name in dict.fromkeys(ask.entityNames):
            entity = live(graph).filter(name=name, is_placeholder=False).first()
            if entity is None:
                change.errors.append(f"Entity not found: {name}")
                continue
            end_all(entity, now)
            change.deleted.append(name)
    return change


def end_all(entity: Entity, now: datetime) -> None:
    """The entity, what is said of it and its relations end; all of it is purged later."""
    Observation.objects.filter(entity=entity, ended_at=None).update(ended_at=now)
    Relation.objects.filter(Q(source=entity) | Q(target=entity), ended_at=None).update(ended_at=now)
    Entity.objects.filter(pk=entity.pk).update(deleted_at=now)


# -- observations -----------------------------------------------------------------------------------------


@carries_out(AddObservations)
def add_observations(ask: AddObservations, *, caller: Caller) -> Change:
    """Adds texts to entities that exist, all or nothing; a text that is there already is passed over."""
    change = Change()
    with graphs.changing(caller) as graph:
        for name, texts in _by_entity(ask.name, ask.observations, "contents"):
            entity = live(graph).filter(name=name, is_placeholder=False).first()
            if entity is None:
                raise not_found(name)
            added = observe(graph, entity, texts, ask.kind, ask.supersedes)
            change.added.setdefault(name, []).extend(row.text for row in added)
            change.entities.append(entity)
    vectors.index_soon(change.entities, flags=True)
    return change


def _by_entity(name: str | None, items: Sequence[Any], key: str) -> list[tuple[str, list[str]]]:
    """Both ways of asking as pairs of an entity and texts."""
    if items and all(isinstance(item, dict) for item in items):
        if name:
            raise Invalid("stands beside objects that name their entity", field="name", allowed="texts with name")
        return [_pair(item, key, number) for number, item in enumerate(items)]
    if not name:
        raise Invalid("is missing", field="name", allowed="the entity's name")
    return [(name, _texts(items, "observations"))]


def _pair(item: Mapping[str, Any], key: str, number: int) -> tuple[str, list[str]]:
    name, texts = item.get("entityName"), item.get(key)
    if not isinstance(name, str) or not name.strip():
        raise Invalid("is missing", field=f"observations[{number}].entityName", allowed="the entity's name")
    return name.strip(), _texts(texts, f"observations[{number}].{key}")


def _texts(values: Any, path: str) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) and value.strip() for value in values):
        raise Invalid("is not a list of texts", field=path, allowed="texts")
    for number, value in enumerate(values):
        if len(value) > OBSERVATION_MOST or "\x00" in value:
            fault = f"has {len(value)} characters" if "\x00" not in value else "contains a NUL character"
            raise Invalid(fault, field=f"{path}[{number}]", allowed=f"1 to {OBSERVATION_MOST} characters")
    return values


def observe(
    graph: Graph, entity: Entity, texts: Iterable[str], kind: str | None = None, supersedes: int | None = None
) -> list[Observation]:
    existing = set(Observation.objects.filter(entity=entity, ended_at=None).values_list("text", flat=True))
    rows = []
    for text in dict.fromkeys(texts):
        if text in existing:
            continue
        low = folded(text)
        rows.append(
            Observation(
                graph=graph,
                entity=entity,
                number=graphs.take_number(graph),
                text=text,
                kind=kind or "generic",
                folded=low,
                grams=grams(low),
            )
        )
    if supersedes is not None and rows:
        _supersede(entity, rows[-1], supersedes)
    Observation.objects.bulk_create(rows)
    if rows:
        Entity.objects.filter(pk=entity.pk).update(updated_at=timezone.now())
    return rows


def _supersede(entity: Entity, row: Observation, number: int) -> None:
    now = timezone.now()
    old = Observation.objects.filter(entity=entity, number=number, ended_at=None)
    if not old.update(ended_at=now, superseded_at=now):
        raise NotFound(f"Observation not found: {number} of {entity.name}")
    row.supersedes = number


@carries_out(DeleteObservations)
def delete_observations(ask: DeleteObservations, *, caller: Caller) -> Change:
    """Ends observations by their exact text. Texts that are not there change nothing."""
    change = Change()
    if ask.deletions and (ask.name or ask.observations):
        raise Invalid("stands beside name and observations", field="deletions", allowed="one of the two ways")
    pairs = _by_entity(ask.name, ask.deletions or ask.observations, "observations")
    with graphs.changing(caller) as graph:
        for name, texts in pairs:
            entity = live(graph).filter(name=name, is_placeholder=False).first()
            if entity is None:
                if ask.deletions:
                    continue
                raise not_found(name)
            Observation.objects.filter(entity=entity, text__in=texts, ended_at=None).update(ended_at=timezone.now())
            change.entities.append(entity)
    return change


# -- relations --------------------------------------------------------------------------------------------


@carries_out(CreateRelations)
def create_relations(ask: CreateRelations, *, caller: Caller) -> Change:
    """Creates relations between entities that exist; each that can't be is told beside the others."""
    change = Change()
    with graphs.changing(caller) as graph:
        for item in ask.relations:
            ends, missing = _ends(graph, item)
            if missing:
                change.errors.append(f"Entity not found: {missing[0]}")
                change.relations.append({"error": change.errors[-1]})
                continue
            shape = {"from": item["from"], "to": item["to"], "relationType": item["relationType"]}
            relation = relate(graph, ends[0], ends[1], item["relationType"], item.get("context", ""))
            change.relations.append(
                shape | ({"id": relation.number} if relation else {"error": "Relation already exists"})
            )
    return change


def put_relations(caller: Caller, items: Iterable[Mapping[str, Any]], *, dangling: bool = False) -> Change:
    """Relations that are new, as shapes; with `dangling`, an end that is not there becomes a hidden placeholder."""
    change = Change()
    with graphs.changing(caller) as graph:
        for item in items:
            ends, missing = _ends(graph, item)
            if missing and not dangling:
                change.errors.append(f"Entity not found: {missing[0]}")
                continue
            for name in dict.fromkeys(missing):
                number = graphs.take_number(graph)
                Entity.objects.create(graph=graph, number=number, name=name, is_placeholder=True)
            ends = ends if not missing else _ends(graph, item)[0]
            if relate(graph, ends[0], ends[1], item["relationType"], item.get("context", ""), inverse=False):
                shape = {"from": item["from"], "to": item["to"], "relationType": item["relationType"]}
                change.relations.append(shape)
    return change


def _ends(graph: Graph, item: Mapping[str, Any]) -> tuple[list[Entity], list[str]]:
    """Both ends of a relation, of those that are there, and the names of those that are not."""
    names = [item["from"], item["to"]]
    by_name = {entity.name: entity for entity in live(graph).filter(name__in=names)}
    return [by_name[name] for name in names if name in by_name], [name for name in names if name not in by_name]


def relate(
    graph: Graph, source: Entity, target: Entity, relation_type: str, context: str = "", *, inverse: bool = True
) -> Relation | None:
    """The new relation, with its inverse where the type has one; None where it is there already."""
    if Relation.objects.filter(source=source, target=target, relation_type=relation_type, ended_at=None).exists():
        return None
    number = graphs.take_number(graph)
    relation = Relation.objects.create(
        graph=graph, number=number, source=source, target=target, relation_type=relation_type, context=context
    )
    if inverse and (other_type := settings.GRAPH_INVERSES.get(relation_type)):
        relate(graph, target, source, other_type, f"Inverse of {relation_type}", inverse=False)
    return relation


@carries_out(DeleteRelations)
def delete_relations(ask: DeleteRelations, *, caller: Caller) -> Change:
    """Ends relations by both ends and type; each that is not there is told beside the others."""
    change = Change()
    with graphs.changing(caller) as graph:
        for item in ask.relations:
            ends, missing = _ends(graph, item)
            if missing:
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


@carries_out(EndRelation)
def end_relation(ask: EndRelation, *, caller: Caller) -> tuple[Relation, Relation | None]:
    """Ends a relation, and its inverse where the type has one; ending twice changes nothing."""
    with graphs.changing(caller) as graph:
        relation = (
            Relation.objects.select_related("source", "target").filter(graph=graph, number=ask.relation_id).first()
        )
        if relation is None:
            raise NotFound(f"Relation not found: {ask.relation_id}")
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
