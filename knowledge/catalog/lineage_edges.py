"""Which entity is made from which, as aspects say: tables, data jobs, charts, dashboards, features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Aspects = Mapping[str, Mapping[str, Any]]

# aspect → keys whose URNs the entity is made from, and keys whose URNs are made from the entity.
FROM: dict[str, tuple[str, ...]] = {
    "dataJobInputOutput": ("inputDatasets", "inputDatasetEdges", "inputDatajobs", "inputDatajobEdges"),
    "chartInfo": ("inputs", "inputEdges"),
    "dashboardInfo": ("charts", "chartEdges", "datasets", "datasetEdges", "dashboards"),
    "mLFeatureProperties": ("sources",),
    "mlFeatureProperties": ("sources",),
    "mlPrimaryKeyProperties": ("sources",),
    "mlFeatureTableProperties": ("mlFeatures", "mlPrimaryKeys"),
    "mlModelProperties": ("mlFeatures", "trainingJobs"),
}
MADE: dict[str, tuple[str, ...]] = {"dataJobInputOutput": ("outputDatasets", "outputDatasetEdges")}


def edges(urn: str, aspects: Aspects) -> set[tuple[str, str]]:
    """(downstream, upstream) pairs that this entity's aspects tell of."""
    pairs = {(urn, upstream) for upstream in upstreams(aspects)}
    for aspect, keys in FROM.items():
        pairs |= {(urn, neighbour) for key in keys for neighbour in urns_in((aspects.get(aspect) or {}).get(key))}
    for aspect, keys in MADE.items():
        pairs |= {(neighbour, urn) for key in keys for neighbour in urns_in((aspects.get(aspect) or {}).get(key))}
    return {(down, up) for down, up in pairs | fine_grained(urn, aspects) if down != up}


def upstreams(aspects: Aspects) -> list[str]:
    entries = (aspects.get("upstreamLineage") or {}).get("upstreams") or []
    return [str(upstream["dataset"]) for upstream in entries if upstream.get("dataset")]


def fine_grained(urn: str, aspects: Aspects) -> set[tuple[str, str]]:
    """Tables behind the columns of fine-grained lineage, where no coarser statement names them."""
    pairs = set()
    for line in columns(aspects):
        up = {table_of(column) for column in line["from"]}
        down = {table_of(column) for column in line["to"]}
        if urn.startswith("urn:li:dataJob:"):
            pairs |= {(urn, table) for table in up if table} | {(table, urn) for table in down if table}
        else:
            pairs |= {(urn, table) for table in up if table}
    return pairs


def columns(aspects: Aspects) -> list[dict[str, list[str]]]:
    """Which columns are made from which others, of a table or of a data job."""
    lines = [
        line
        for aspect in ("upstreamLineage", "dataJobInputOutput")
        for line in (aspects.get(aspect) or {}).get("fineGrainedLineages") or []
    ]
    return [{"from": list(line.get("upstreams") or []), "to": list(line.get("downstreams") or [])} for line in lines]


def table_of(column: str) -> str:
    """`urn:li:dataset:(…)` of urn:li:schemaField:(urn:li:dataset:(…),path)."""
    inner = column.removeprefix("urn:li:schemaField:(")
    return inner.rpartition(",")[0] if inner != column else ""


def urns_in(value: Any) -> Iterator[str]:
    """URNs in a list, an edge's destination, or one of Avro's unions ({"array": […]}, {"string": …})."""
    if isinstance(value, str):
        if value.startswith("urn:li:"):
            yield value
    elif isinstance(value, Mapping):
        for key in ("destinationUrn", "string", "array"):
            yield from urns_in(value.get(key))
    elif isinstance(value, list):
        for item in value:
            yield from urns_in(item)
