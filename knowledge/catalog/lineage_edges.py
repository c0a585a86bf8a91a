"""Lineage edges derived from the aspects of tables, data jobs, charts, dashboards, features and models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Aspects = Mapping[str, Mapping[str, Any]]

# aspect → keys that hold the URNs of the entity's inputs
INPUTS: dict[str, tuple[str, ...]] = {
    "dataJobInputOutput": ("inputDatasets", "inputDatasetEdges", "inputDatajobs", "inputDatajobEdges"),
    "chartInfo": ("inputs", "inputEdges"),
    "dashboardInfo": ("charts", "chartEdges", "datasets", "datasetEdges", "dashboards"),
    "mLFeatureProperties": ("sources",),
    "mlFeatureProperties": ("sources",),
    "mlPrimaryKeyProperties": ("sources",),
    "mlFeatureTableProperties": ("mlFeatures", "mlPrimaryKeys"),
    "mlModelProperties": ("mlFeatures", "trainingJobs"),
}
# aspect → keys that hold the URNs of the entity's outputs
OUTPUTS: dict[str, tuple[str, ...]] = {"dataJobInputOutput": ("outputDatasets", "outputDatasetEdges")}


def edges(urn: str, aspects: Aspects) -> set[tuple[str, str]]:
    """Return the (downstream, upstream) pairs in this entity's aspects."""
    pairs = {(urn, upstream) for upstream in upstreams(aspects)}
    for aspect, keys in INPUTS.items():
        pairs |= {(urn, neighbor) for key in keys for neighbor in urns_in((aspects.get(aspect) or {}).get(key))}
    for aspect, keys in OUTPUTS.items():
        pairs |= {(neighbor, urn) for key in keys for neighbor in urns_in((aspects.get(aspect) or {}).get(key))}
    return {(down, up) for down, up in pairs | fine_grained(urn, aspects) if down != up}


def upstreams(aspects: Aspects) -> list[str]:
    entries = (aspects.get("upstreamLineage") or {}).get("upstreams") or []
    return [str(upstream["dataset"]) for upstream in entries if upstream.get("dataset")]


def fine_grained(urn: str, aspects: Aspects) -> set[tuple[str, str]]:
    """Return the (downstream, upstream) pairs in column-level lineage, because table-level lineage may lack them.

    For a data job, each pair consists of the job and a table.
    """
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
    """Return the column-level lineage of a table or data job, as lists of schemaField URNs, `from` and `to`."""
    lines = [
        line
        for aspect in ("upstreamLineage", "dataJobInputOutput")
        for line in (aspects.get(aspect) or {}).get("fineGrainedLineages") or []
    ]
    return [{"from": list(line.get("upstreams") or []), "to": list(line.get("downstreams") or [])} for line in lines]


def table_of(column: str) -> str:
    """Return the URN of the table in a column's URN, or "" if the text is not a column's URN.

    A column's URN is `urn:li:schemaField:(urn:li:dataset:(…),path)`.
    """
    inner = column.removeprefix("urn:li:schemaField:(")
    return inner.rpartition(",")[0] if inner != column else ""


def urns_in(value: Any) -> Iterator[str]:
    """Yield the URNs in a string, list, edge (its destination) or Avro union ({"array": […]}, {"string": …})."""
    if isinstance(value, str):
        if value.startswith("urn:li:"):
            yield value
    elif isinstance(value, Mapping):
        for key in ("destinationUrn", "string", "array"):
            yield from urns_in(value.get(key))
    elif isinstance(value, list):
        for item in value:
            yield from urns_in(item)
