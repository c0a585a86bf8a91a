"""Part of a graph in the format of Anthropic's memory server, read in a single SQL statement.

The duration of a call depends on its number of statements (bench/graph.py).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from foundation.database import prepared_statements, sql_files
from foundation.people.caller import Caller
from knowledge.graph import graphs
from knowledge.graph.search import graph_reading

SQL = sql_files.statements(__file__)


def subgraph(
    caller: Caller, *, holding: str = "", names: Sequence[str] | None = None, dangling: bool = False
) -> dict[str, list[dict[str, Any]]]:
    """Return entities of the caller's graph with their texts, and the relations that start or end at one of them.

    `holding` and `names` select entities as in graph_reading.entities(). With `dangling`, all relations of the graph
    are returned, including those between two hidden placeholders.
    """
    lookup, key = graphs.lookup(caller)
    page, values = graph_reading.page("(SELECT id FROM mine)", holding, names)
    rule = SQL["all_relations" if dangling else "relations_of_page"]
    statement = SQL["subgraph"].format(lookup=lookup, page=page, rule=rule)
    values |= {"as_of": None, "after": 0, "limit": None, **key}
    ((entities, relations),) = prepared_statements.rows(statement, values)
    return {"entities": json.loads(entities or "[]"), "relations": json.loads(relations or "[]")}
