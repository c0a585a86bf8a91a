"""Lineage queries for graph recall and for the tool catalog_lineage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foundation.people.caller import Caller
from knowledge.catalog import lineage_edges
from knowledge.catalog.current import copy_note, get_readable_catalog
from knowledge.catalog.interface import LineageNode

DIRECTIONS = ("upstream", "downstream")
MAX_NODES = 200
MAX_HOPS = 5
RECALL_HOPS = 2  # steps that graph recall follows
MAX_ADJACENT = 50  # maximum number of adjacent entities per direction that are searched for data jobs


def neighbors(caller: Caller, urns: Sequence[str]) -> tuple[dict[str, int], str]:
    """Return the distances of entities within RECALL_HOPS steps upstream or downstream, by URN, and a note.

    The given entities have distance 0. The note is empty unless DataHub's copy was read. Raises CatalogUnavailable or
    CatalogRefused.
    """
    catalog = get_readable_catalog()
    distances = dict.fromkeys(urns, 0)
    for urn in urns:
        for direction in DIRECTIONS:
            for node in catalog.lineage(urn, direction=direction, hops=RECALL_HOPS, limit=MAX_NODES):
                distances[node.urn] = min(distances.get(node.urn, node.distance), node.distance)
    return distances, copy_note(catalog)


def nodes_around(urn: str, directions: Sequence[str], hops: int, limit: int) -> list[LineageNode]:
    """Return at most `limit` nodes around an entity, nearest first."""
    catalog = get_readable_catalog()
    nodes = [n for direction in directions for n in catalog.lineage(urn, direction=direction, hops=hops, limit=limit)]
    return sorted(nodes, key=lambda node: (node.distance, node.direction, node.urn))[:limit]


def columns(urn: str) -> list[dict[str, Any]]:
    """Return the column-level lineage of an entity, from its own aspects and from adjacent data jobs."""
    catalog = get_readable_catalog()
    adjacent = [n.urn for d in DIRECTIONS for n in catalog.lineage(urn, direction=d, hops=1, limit=MAX_ADJACENT)]
    jobs = [urn for urn in adjacent if urn.startswith("urn:li:dataJob:")]
    read = catalog.read([urn, *jobs], ["upstreamLineage", "dataJobInputOutput"])
    lines = {
        source: lineage_edges.columns({n: a.value for n, a in read[source].items() if a.value is not None})
        for source in read
    }
    by_jobs = [line for job in jobs for line in lines[job] if any(urn in c for c in (*line["from"], *line["to"]))]
    return [*lines[urn], *by_jobs]
