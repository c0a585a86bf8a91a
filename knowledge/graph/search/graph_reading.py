"""Reading the entities, observations and relations of a graph.

The statements are written by hand, because the ORM takes longer to build them than PostgreSQL takes to run them
(bench/graph.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from foundation.database import prepared_statements, sql_files
from knowledge.graph.models import Entity, Graph, Observation, Relation
from knowledge.graph.search.trigrams import GRAM, folded, query_grams

SQL = sql_files.statements(__file__)
NOT_READ = {"folded", "grams", "access_count", "access_days", "last_access"}
ENTITY = [field.attname for field in Entity._meta.concrete_fields if field.attname not in NOT_READ]
OBSERVATION = "number, text, kind, similarity_flag, supersedes, superseded_at, created_at, ended_at"


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
    rule = ""
    if holding:
        rule = SQL["holding"].format(graph=graph)
    elif names is not None:
        rule = SQL["named"]
    in_force = SQL["in_force"].format(row="entity", end="entity.deleted_at")
    grams = query_grams(words) if len(words) >= GRAM else None
    values = {"words": words, "grams": grams, "names": list(names or ()), "any_form": False, "placeholders": False}
    columns = ", ".join(f"entity.{column}" for column in ENTITY)
    return SQL["entities"].format(columns=columns, graph=graph, in_force=in_force, rule=rule), values


def observations(
    entities: Sequence[UUID], as_of: datetime | None = None, kinds: Sequence[str] = (), *, superseded: bool = False
) -> list[Observation]:
    """Return the observations of these entities, in order of creation. With `superseded`, include superseded ones.

    With `as_of`, an observation's entity is the one that it belonged to then.
    """
    if not entities:
        return []
    values = {"entities": list(entities), "as_of": as_of, "kinds": list(kinds), "superseded": superseded}
    in_force = SQL["in_force"].format(row="observation", end="observation.ended_at")
    rows = SQL["observations_then"].format(columns=OBSERVATION) if as_of else "graph_observations"
    statement = SQL["observations"].format(rows=rows, columns=OBSERVATION, in_force=in_force)
    return list(Observation.objects.raw(statement, values))


def present(entities: Collection[UUID], texts: Collection[str]) -> set[tuple[UUID, str]]:
    """Return pairs of an entity's id and a text, for these texts that the entity already has."""
    if not entities or not texts:
        return set()
    return set(prepared_statements.rows(SQL["present"], {"entities": list(entities), "texts": list(texts)}))


def relations(entities: Sequence[UUID], as_of: datetime | None = None, *, ended: bool = False) -> list[Relation]:
    """Return the relations that start or end at one of these entities, in order of creation.

    With `ended`, include those that ended, if they were not deleted and both entities still exist.
    Only the id and name of both ends are loaded.
    """
    if not entities:
        return []
    in_force = SQL["in_force"].format(row="relation", end="relation.ended_at")
    values = {"entities": list(entities), "as_of": as_of, "ended": ended}
    rows = list(Relation.objects.raw(SQL["relations"].format(in_force=in_force), values))
    for row in rows:
        for end in ("source", "target"):
            setattr(
                row, end, Entity.from_db(None, ["id", "name"], [getattr(row, f"{end}_id"), getattr(row, f"{end}_name")])
            )
    return rows
