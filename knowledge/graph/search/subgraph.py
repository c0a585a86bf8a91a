"""Part of a graph in the format of Anthropic's memory server, read in a single SQL statement.

The duration of a call depends on its number of statements (bench/graph.py).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from foundation.database import prepared_statements
from foundation.people.caller import Caller
from knowledge.graph import graphs
from knowledge.graph.search import sql

SUBGRAPH = """
    WITH mine AS MATERIALIZED ({lookup}), page AS MATERIALIZED ({page})
    SELECT (SELECT json_agg(json_build_object('name', name, 'entityType', entity_type, 'observations', ARRAY(
                SELECT text FROM graph_observations observation
                WHERE observation.entity_id = page.id AND observation.ended_at IS NULL ORDER BY observation.number
            )) ORDER BY number) FROM page)::text,
           (SELECT json_agg(json_build_object(
                'from', source.name, 'to', target.name, 'relationType', relation.relation_type
            ) ORDER BY relation.number)
            FROM graph_relations relation
            JOIN graph_entities source ON source.id = relation.source_id
            JOIN graph_entities target ON target.id = relation.target_id
            WHERE relation.ended_at IS NULL AND ({rule}))::text"""
ALL_RELATIONS = "relation.graph_id = (SELECT id FROM mine)"
RELATIONS_OF_PAGE = """
    relation.source_id = ANY(ARRAY(SELECT id FROM page)) OR relation.target_id = ANY(ARRAY(SELECT id FROM page))"""


def subgraph(
    caller: Caller, *, holding: str = "", names: Sequence[str] | None = None, dangling: bool = False
) -> dict[str, list[dict[str, Any]]]:
    """Return entities of the caller's graph with their texts, and the relations that start or end at one of them.

    `holding` and `names` select entities as in sql.entities(). With `dangling`, all relations of the graph are
    returned, including those between two hidden placeholders.
    """
    lookup, key = graphs.lookup(caller)
    page, values = sql.page("(SELECT id FROM mine)", holding, names)
    statement = SUBGRAPH.format(lookup=lookup, page=page, rule=ALL_RELATIONS if dangling else RELATIONS_OF_PAGE)
    values |= {"as_of": None, "after": 0, "limit": None, **key}
    ((entities, relations),) = prepared_statements.rows(statement, values)
    return {"entities": json.loads(entities or "[]"), "relations": json.loads(relations or "[]")}
