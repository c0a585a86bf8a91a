"""What is near an entity: for graph recall, and for agents that ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings

from knowledge.catalog import lineage_edges
from knowledge.catalog.current import copy_note, get_readable_catalog
from knowledge.catalog.interface import LineageNode
from memories.identity.caller import Caller

DIRECTIONS = ("upstream", "downstream")
MAX_NODES = 200
MAX_HOPS = 5
JOBS = 50  # neighbours among which data jobs are looked for


def neighbours(caller: Caller, urns: Sequence[str]) -> tuple[dict[str, int], str]:
    """Entities within LINEAGE_HOPS of any of these, both ways, with their distance, these themselves at 0; and a
    note where they come from a copy.

    Raises CatalogUnavailable or CatalogRefused.
    """
    catalog = get_readable_catalog()
    near = dict.fromkeys(urns, 0)
    for urn in urns:
        for direction in DIRECTIONS:
            for node in catalog.lineage(urn, direction=direction, hops=settings.LINEAGE_HOPS, limit=MAX_NODES):
                near[node.urn] = min(near.get(node.urn, node.distance), node.distance)
    return near, copy_note(catalog)


def around(urn: str, directions: Sequence[str], hops: int, limit: int) -> list[LineageNode]:
    """The nodes around one entity, nearest first, at most `limit`."""
    catalog = get_readable_catalog()
    nodes = [n for direction in directions for n in catalog.lineage(urn, direction=direction, hops=hops, limit=limit)]
    return sorted(nodes, key=lambda node: (node.distance, node.direction, node.urn))[:limit]


def columns(urn: str) -> list[dict[str, Any]]:
    """Which columns are made from which others, where the catalog knows: of the entity, and of data jobs around it."""
    catalog = get_readable_catalog()
    near = [n.urn for d in DIRECTIONS for n in catalog.lineage(urn, direction=d, hops=1, limit=JOBS)]
    jobs = [neighbour for neighbour in near if neighbour.startswith("urn:li:dataJob:")]
    read = catalog.read([urn, *jobs], ["upstreamLineage", "dataJobInputOutput"])
    lines = {
        source: lineage_edges.columns({n: a.value for n, a in read[source].items() if a.value is not None})
        for source in read
    }
    by_jobs = [line for job in jobs for line in lines[job] if any(urn in c for c in (*line["from"], *line["to"]))]
    return [*lines[urn], *by_jobs]
