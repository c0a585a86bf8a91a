"""Writes to the entities and observations of a knowledge graph.

Each call is one transaction that locks the graph. A few texts are embedded before it begins. A worker embeds them later
if there are many, if the caller doesn't need the embeddings, or if the embedder is unavailable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Invalid, NotFound
from foundation.people.caller import Caller
from knowledge.graph import graphs, names
from knowledge.graph.models import Entity, Graph, Observation, Relation
from knowledge.graph.operations import (
    MAX_OBSERVATION,
    AddObservations,
    CreateEntities,
    DeleteEntities,
    DeleteObservations,
)
from knowledge.graph.search import graph_reading, rebuild, vectors
from knowledge.graph.search.trigrams import folded, grams
from memories.writing import quotations

DEFAULT_STATUS = "active"  # of an entity that is created without one

OBSERVATIONS = "observations"  # name of their TextPlace
Texts = tuple[str, Sequence[str]]  # an entity's name and observations


@dataclass
class GraphChange:
    """The result of a write. Each operation fills the fields that its response needs."""

    entities: list[Entity] = field(default_factory=list)
    relations: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    added: dict[str, list[str]] = field(default_factory=dict)  # entity name → new texts
    deleted: list[Any] = field(default_factory=list)
    new: list[Entity] = field(default_factory=list)
    kept_types: list[tuple[Entity, str]] = field(default_factory=list)  # with the type that an item stated


def not_found(name: str) -> NotFound:
    return NotFound(gettext("Entity not found: %(name)s") % {"name": name})


def live(graph: Graph) -> Any:
    return Entity.objects.filter(graph=graph, deleted_at=None)


# -- entities ---------------------------------------------------------------------------------------------


def create_entities(caller: Caller, operation: CreateEntities) -> GraphChange:
    return put_entities(caller, operation.entities, key=names.nfc)


def put_entities(
    caller: Caller,
    items: Sequence[Mapping[str, Any]],
    *,
    merges: bool = True,
    updates: bool = True,
    encodes: bool = True,
    key: names.Key = names.exact,
) -> GraphChange:
    """Create entities. Update those that exist, and add the new observations to them.

    Without `merges`, existing entities are left alone, as in Anthropic's server. Without `updates`, they only get new
    observations, and a type if theirs is the default; `kept_types` has those whose item states another type. Without
    `encodes`, a worker computes the embeddings later. `key` decides which names are the same.
    """
    pairs = [(item["name"], item.get("observations", [])) for item in items]
    encodings = _encode_new_texts(caller, pairs) if encodes else vectors.Encodings({})
    change = GraphChange()
    with graphs.locked_graph(caller) as graph:
        found = names.find(graph, [item["name"] for item in items], key, placeholders=True)
        by_key = {key(name): entity for name, entity in found.items()}
        texts: list[tuple[Entity, Sequence[str]]] = []
        for item in items:
            entity = found.get(item["name"]) or by_key.get(key(item["name"]))
            exists = entity is not None and not entity.is_placeholder
            if entity is None or entity.is_placeholder:
                entity = found[item["name"]] = by_key[key(item["name"])] = _make(graph, item, entity)
                change.new.append(entity)
            elif merges and (updates or entity.entity_type == settings.GRAPH_DEFAULT_TYPE):
                _update(entity, item)
            elif merges and item.get("entityType") not in ("", None, entity.entity_type):
                change.kept_types.append((entity, item["entityType"]))
            if not exists or merges:
                texts.append((entity, item.get("observations", [])))
        _save(change.new)
        for (entity, _), rows in zip(texts, create_observations(graph, texts, encodings), strict=True):
            change.added.setdefault(entity.name, []).extend(row.text for row in rows)
    change.entities = list({entity.pk: entity for entity, _ in texts}.values())
    return change


def put_entity(graph: Graph, name: str, entity_type: str) -> Entity:
    """Create an entity in a locked graph. A placeholder of this name becomes the entity."""
    placeholder = names.find(graph, [name], placeholders=True).get(name)
    entity = _make(graph, {"name": name, "entityType": entity_type}, placeholder)
    _save([entity])
    return entity


def _make(graph: Graph, item: Mapping[str, Any], placeholder: Entity | None) -> Entity:
    entity = placeholder or Entity(graph=graph, number=graphs.take_number(graph))
    entity.name = item["name"]
    entity.is_placeholder = False
    entity.created_at = timezone.now()
    entity.entity_type = item.get("entityType") or settings.GRAPH_DEFAULT_TYPE
    entity.status = item.get("status") or DEFAULT_STATUS
    entity.urn = item.get("urn") or entity.urn
    _derive(entity)
    return entity


def _derive(entity: Entity) -> None:
    entity.folded = rebuild.entity_text(entity.name, entity.entity_type)
    entity.grams = grams(entity.folded)
    entity.updated_at = timezone.now()


def _save(entities: Sequence[Entity]) -> None:
    placeholders = [entity for entity in entities if not entity._state.adding]
    Entity.objects.bulk_create([entity for entity in entities if entity._state.adding])
    for entity in placeholders:
        entity.save()


def _update(entity: Entity, item: Mapping[str, Any]) -> None:
    # A call that omits the type, status or URN must not reset it.
    changes = {"entity_type": item.get("entityType"), "status": item.get("status"), "urn": item.get("urn")}
    changes = {name: value for name, value in changes.items() if value and value != getattr(entity, name)}
    for name, value in changes.items():
        setattr(entity, name, value)
    if changes:
        _derive(entity)
        if not entity._state.adding:  # put_entities saves an entity that the same call has created
            entity.save()


def delete_entities(caller: Caller, operation: DeleteEntities) -> GraphChange:
    entity_names = list(dict.fromkeys(operation.entityNames))
    deleted_names = end_entities(caller, entity_names, key=names.nfc)
    return GraphChange(
        deleted=[name for name in entity_names if name in deleted_names],
        errors=[not_found(name).message for name in entity_names if name not in deleted_names],
    )


def end_entities(caller: Caller, entity_names: Collection[str], *, key: names.Key = names.exact) -> set[str]:
    """Mark entities as deleted and end their observations and relations. Return the names of the deleted entities."""
    with graphs.locked_graph(caller) as graph:
        by_name = names.find(graph, entity_names, key)
        now = timezone.now()
        pks = [entity.pk for entity in by_name.values()]
        Observation.objects.filter(entity__in=pks, ended_at=None).update(ended_at=now)
        edges = Relation.objects.filter(Q(source__in=pks) | Q(target__in=pks), ended_at=None)
        edges.update(ended_at=now, deleted_at=now)
        Entity.objects.filter(pk__in=pks).update(deleted_at=now)
    return set(by_name)


# -- observations -----------------------------------------------------------------------------------------


def add_observations(caller: Caller, operation: AddObservations) -> GraphChange:
    """Add texts to existing entities, all or nothing. Texts that an entity already has are skipped."""
    pairs = _parse_pairs(operation.name, operation.observations, "contents")
    change = GraphChange()
    added = add_observations_to(
        caller, pairs, operation.kind, operation.supersedes, flags=True, key=names.nfc, memory_ids=operation.memory_ids
    )
    for entity, rows in added:
        change.added.setdefault(entity.name, []).extend(row.text for row in rows)
        change.entities.append(entity)
    return change


def add_observations_to(
    caller: Caller,
    pairs: Sequence[Texts],
    kind: str | None = None,
    supersedes: int | None = None,
    *,
    flags: bool = False,
    missing: Callable[[str], NotFound] = not_found,
    encodes: bool = True,
    key: names.Key = names.exact,
    memory_ids: Sequence[UUID] = (),
) -> list[tuple[Entity, list[Observation]]]:
    """Add texts to entities by name. Returns the entity and its new observations for each pair.

    With `flags`, near-duplicates are flagged. Without `encodes`, a worker computes the embeddings later. `memory_ids`
    are the memories that the texts are from. If an entity doesn't exist, raises the error made by `missing` and stores
    nothing.
    """
    texts_to_embed = (vectors.embedded_text(name, text) for name, texts in pairs for text in texts)
    encodings = vectors.encode(texts_to_embed) if encodes else vectors.Encodings({})
    with graphs.locked_graph(caller) as graph:
        by_name = names.find(graph, [name for name, _ in pairs], key)
        if absent := [name for name, _ in pairs if name not in by_name]:
            raise missing(absent[0])
        entities = [(by_name[name], texts) for name, texts in pairs]
        rows = create_observations(graph, entities, encodings, kind, supersedes)
        quotations.save_named_quotations(caller, memory_ids, OBSERVATIONS, [row.pk for part in rows for row in part])
        if flags:
            vectors.flag([row for part in rows for row in part])
    return [(entity, part) for (entity, _), part in zip(entities, rows, strict=True)]


def _encode_new_texts(caller: Caller, pairs: Sequence[Texts]) -> vectors.Encodings:
    """Embed the texts that aren't stored yet, so that repeating an import embeds nothing."""
    stored_texts: set[tuple[str, str]] = set()
    if graph := graphs.graph_of(caller):
        entities = names.find(graph, [name for name, _ in pairs], names.exact).values()
        rows = Observation.objects.filter(entity__in=[entity.pk for entity in entities], ended_at=None)
        stored_texts = set(rows.values_list("entity__name", "text"))
    return vectors.encode(
        vectors.embedded_text(name, text) for name, texts in pairs for text in texts if (name, text) not in stored_texts
    )


def _parse_pairs(name: str | None, items: Sequence[Any], key: str) -> list[Texts]:
    """Return pairs of an entity's name and its texts.

    `items` are either texts, which belong to the entity `name`, or objects that name their own entity. The objects have
    their texts under `key`.
    """
    if items and all(isinstance(item, dict) for item in items):
        if name:
            raise Invalid(
                gettext("can't be combined with objects that name their entity"),
                field="name",
                allowed=gettext("name with plain texts"),
            )
        return [_parse_pair(item, key, number) for number, item in enumerate(items)]
    if not name:
        raise Invalid(gettext("is missing"), field="name", allowed=gettext("the entity's name"))
    return [(name, _texts(items, "observations"))]


def _parse_pair(item: Mapping[str, Any], key: str, number: int) -> Texts:
    name = item.get("entityName")
    texts = item.get(key)
    if not isinstance(name, str) or not name.strip():
        raise Invalid(
            gettext("is missing"), field=f"observations[{number}].entityName", allowed=gettext("the entity's name")
        )
    return name.strip(), _texts(texts, f"observations[{number}].{key}")


def _texts(values: Any, path: str) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) and value.strip() for value in values):
        raise Invalid(gettext("is not a list of texts"), field=path, allowed=gettext("texts that aren't blank"))
    for number, value in enumerate(values):
        if len(value) > MAX_OBSERVATION or "\x00" in value:
            problem = f"has {len(value)} characters" if "\x00" not in value else "contains a NUL character"
            raise Invalid(
                problem,
                field=f"{path}[{number}]",
                allowed=gettext("1 to %(max_observation)s characters") % {"max_observation": MAX_OBSERVATION},
            )
    return values


def create_observations(
    graph: Graph,
    pairs: Sequence[tuple[Entity, Sequence[str]]],
    encodings: vectors.Encodings,
    kind: str | None = None,
    supersedes: int | None = None,
) -> list[list[Observation]]:
    """Store the texts that are new, with their passages. Returns the new observations of each pair.

    The last new observation supersedes the one with the number `supersedes`, if that is given.
    """
    texts = {text for _, part in pairs for text in part}
    stored_texts = graph_reading.present({entity.pk for entity, _ in pairs}, texts)
    parts = [_new_observations(graph, entity, part, stored_texts, kind) for entity, part in pairs]
    new_rows = [row for part in parts for row in part]
    if supersedes is not None and new_rows:
        _supersede(new_rows[-1], supersedes)
    vectors.save(new_rows, encodings)
    graph.touched |= {row.entity_id for row in new_rows}
    return parts


def _new_observations(
    graph: Graph, entity: Entity, texts: Sequence[str], stored_texts: set[tuple[UUID, str]], kind: str | None
) -> list[Observation]:
    rows = []
    for text in texts:
        if (entity.pk, text) in stored_texts:
            continue
        stored_texts.add((entity.pk, text))
        row = Observation(graph=graph, entity=entity, number=graphs.take_number(graph), text=text)
        row.folded = folded(text)
        row.grams = grams(row.folded)
        row.kind = kind or row.kind
        rows.append(row)
    return rows


def _supersede(row: Observation, number: int) -> None:
    now = timezone.now()
    old = Observation.objects.filter(entity=row.entity, number=number, ended_at=None)
    if not old.update(ended_at=now, superseded_at=now):
        raise NotFound(
            gettext("Observation not found: %(number)s of %(entity)s") % {"number": number, "entity": row.entity.name}
        )
    row.supersedes = number


def delete_observations(caller: Caller, operation: DeleteObservations) -> GraphChange:
    if operation.deletions and (operation.name or operation.observations):
        raise Invalid(
            gettext("can't be combined with name or observations"),
            field="deletions",
            allowed=gettext("one of the two forms"),
        )
    pairs = _parse_pairs(operation.name, operation.deletions or operation.observations, "observations")
    change = delete_observations_by_text(caller, pairs, key=names.nfc)
    if operation.name and not change.entities:
        raise not_found(operation.name)
    return change


def delete_observations_by_text(caller: Caller, pairs: Sequence[Texts], *, key: names.Key = names.exact) -> GraphChange:
    """End observations by their exact text. Entities and texts that don't exist are named in the errors."""
    change = GraphChange()
    with graphs.locked_graph(caller) as graph:
        by_name = names.find(graph, [name for name, _ in pairs], key)
        now = timezone.now()
        for name, texts in pairs:
            entity = by_name.get(name)
            if entity is None:
                change.errors.append(not_found(name).message)
                continue
            change.entities.append(entity)
            living = Observation.objects.filter(entity=entity, text__in=texts, ended_at=None)
            found = set(living.values_list("text", flat=True))
            living.update(ended_at=now)
            change.errors += [_no_observation(entity, text) for text in texts if text not in found]
    return change


def _no_observation(entity: Entity, text: str) -> str:
    return gettext("%(entity)s has no observation with exactly this text: %(text)s") % {
        "entity": entity.name,
        "text": names.shortened(text),
    }
