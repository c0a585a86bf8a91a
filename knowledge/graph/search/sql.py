"""SQL statements that read a graph.

They are written by hand, because the ORM takes longer to build them than PostgreSQL takes to run them (bench/graph.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from foundation.database import prepared_statements
from knowledge.graph.models import Entity, Graph, Observation, Relation
from knowledge.graph.search.trigrams import GRAM, folded, query_grams

IN_FORCE = """(%(as_of)s::timestamptz IS NULL AND {end} IS NULL
               OR {row}.created_at <= %(as_of)s AND ({end} IS NULL OR {end} > %(as_of)s))"""
# Condition for entities whose name, type or observations contain a text.
HOLDING = """
    AND entity.id = ANY (ARRAY(
        SELECT named.id FROM graph_entities named
        WHERE named.graph_id = {graph} AND strpos(named.folded, %(words)s) > 0
          AND (%(grams)s::varchar[] IS NULL OR named.grams @> %(grams)s::varchar[])
        UNION
        SELECT observation.entity_id FROM graph_observations observation
        WHERE observation.graph_id = {graph} AND observation.ended_at IS NULL
          AND strpos(observation.folded, %(words)s) > 0
          AND (%(grams)s::varchar[] IS NULL OR observation.grams @> %(grams)s::varchar[])))"""
# Condition for entities by name. The index holds hashes, because it can't hold long names.
NAMED = """
    AND md5(normalize(entity.name)) = ANY (ARRAY(
        SELECT md5(normalize(wanted.name)) FROM unnest(%(names)s::text[]) AS wanted(name)))
    AND (%(any_form)s OR entity.name = ANY(%(names)s::text[]))"""
NOT_READ = {"folded", "grams", "access_count", "access_days", "last_access"}
ENTITY = [field.attname for field in Entity._meta.concrete_fields if field.attname not in NOT_READ]
ENTITIES = """
    SELECT {columns} FROM graph_entities entity
    WHERE entity.graph_id = {graph} AND (%(placeholders)s OR NOT entity.is_placeholder)
      AND entity.number > %(after)s AND {in_force} {rule}
    ORDER BY entity.number LIMIT %(limit)s"""
OBSERVATION = "number, text, kind, similarity_flag, supersedes, superseded_at, created_at, ended_at"
OBSERVATIONS = """
    SELECT id, entity_id, graph_id, {columns}
    FROM {rows} observation
    WHERE entity_id = ANY(%(entities)s) AND (%(kinds)s::varchar[] = '{{}}' OR kind = ANY(%(kinds)s::varchar[]))
      AND ({in_force} OR %(superseded)s AND superseded_at IS NOT NULL)
    ORDER BY number"""
# Observations with the entity that they belonged to at a time, which is the former one if a split moved them later.
OBSERVATIONS_THEN = """(
    SELECT id, COALESCE(former.entity_id, row.entity_id) AS entity_id, graph_id, {columns}
    FROM graph_observations row
    LEFT JOIN LATERAL (
        SELECT move.entity_id FROM graph_observation_moves move
        WHERE move.observation_id = row.id AND move.moved_at > %(as_of)s ORDER BY move.moved_at, move.id LIMIT 1
    ) former ON true
    WHERE row.entity_id = ANY(%(entities)s) OR row.id = ANY (ARRAY(
        SELECT move.observation_id FROM graph_observation_moves move WHERE move.entity_id = ANY(%(entities)s))))"""
# Query for the given texts that entities already have.
PRESENT = """
    SELECT entity_id, text FROM graph_observations
    WHERE entity_id = ANY(%(entities)s) AND ended_at IS NULL AND text = ANY(%(texts)s)"""
RELATIONS = """
    SELECT relation.*, source.name AS source_name, target.name AS target_name
    FROM graph_relations relation
    JOIN graph_entities source ON source.id = relation.source_id
    JOIN graph_entities target ON target.id = relation.target_id
    WHERE (relation.source_id = ANY(%(entities)s) OR relation.target_id = ANY(%(entities)s))
      AND ({in_force} OR %(ended)s AND relation.deleted_at IS NULL
                         AND (%(as_of)s::timestamptz IS NULL OR relation.created_at <= %(as_of)s)
                         AND (source.deleted_at IS NULL OR source.deleted_at > %(as_of)s)
                         AND (target.deleted_at IS NULL OR target.deleted_at > %(as_of)s))
    ORDER BY relation.number"""


def entities(
    graph: Graph,
    *,
    holding: str = "",
    names: Sequence[str] | None = None,
    any_form: bool = False,
    placeholders: bool = False,
    as_of: datetime | None = None,
    after: int = 0,
    limit: int | None = None,
) -> list[Entity]:
    """Return a graph's entities with numbers above `after`, in order of creation.

    `holding` selects entities whose name, type or observations contain the text, ignoring case. Without it, `names`
    selects entities by name; with `any_form`, also those whose name only differs in its Unicode normal form.
    """
    statement, values = page("%(graph)s", holding, names)
    values |= {"graph": graph.pk, "as_of": as_of, "after": after, "limit": limit}
    values |= {"any_form": any_form, "placeholders": placeholders}
    return [Entity.from_db("default", ENTITY, row) for row in prepared_statements.rows(statement, values)]


def page(graph: str, holding: str, names: Sequence[str] | None) -> tuple[str, dict[str, Any]]:
    """Return the statement of entities() and the parameters of its conditions. `graph` is SQL for the graph's id.

    Without further parameters, placeholders are left out and names are compared exactly.
    """
    words = folded(holding)
    rule = HOLDING.format(graph=graph) if holding else NAMED if names is not None else ""
    in_force = IN_FORCE.format(row="entity", end="entity.deleted_at")
    grams = query_grams(words) if len(words) >= GRAM else None
    values = {"words": words, "grams": grams, "names": list(names or ()), "any_form": False, "placeholders": False}
    columns = ", ".join(f"entity.{column}" for column in ENTITY)
    return ENTITIES.format(columns=columns, graph=graph, in_force=in_force, rule=rule), values


def observations(
    entities: Sequence[UUID], as_of: datetime | None = None, kinds: Sequence[str] = (), *, superseded: bool = False
) -> list[Observation]:
    """Return the observations of these entities, in order of creation. With `superseded`, include superseded ones.

    With `as_of`, an observation's entity is the one that it belonged to then.
    """
    if not entities:
        return []
    values = {"entities": list(entities), "as_of": as_of, "kinds": list(kinds), "superseded": superseded}
    in_force = IN_FORCE.format(row="observation", end="observation.ended_at")
    rows = OBSERVATIONS_THEN.format(columns=OBSERVATION) if as_of else "graph_observations"
    statement = OBSERVATIONS.format(rows=rows, columns=OBSERVATION, in_force=in_force)
    return list(Observation.objects.raw(statement, values))


def present(entities: Collection[UUID], texts: Collection[str]) -> set[tuple[UUID, str]]:
    """Return pairs of an entity's id and a text, for these texts that the entity already has."""
    if not entities or not texts:
        return set()
    return set(prepared_statements.rows(PRESENT, {"entities": list(entities), "texts": list(texts)}))


def relations(entities: Sequence[UUID], as_of: datetime | None = None, *, ended: bool = False) -> list[Relation]:
    """Return the relations that start or end at one of these entities, in order of creation.

    With `ended`, include those that ended, if they were not deleted and both entities still exist.
    Only the id and name of both ends are loaded.
    """
    if not entities:
        return []
    in_force = IN_FORCE.format(row="relation", end="relation.ended_at")
    values = {"entities": list(entities), "as_of": as_of, "ended": ended}
    rows = list(Relation.objects.raw(RELATIONS.format(in_force=in_force), values))
    for row in rows:
        for end in ("source", "target"):
            setattr(
                row, end, Entity.from_db(None, ["id", "name"], [getattr(row, f"{end}_id"), getattr(row, f"{end}_name")])
            )
    return rows
