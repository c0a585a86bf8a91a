"""Lineage edges derived from the aspects of tables, data jobs, charts, dashboards, features and models."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from knowledge.catalog.entity_view import simple_path

MAX_COLUMN_PAIRS = 5_000  # maximum number of column-level edges of one entity
MAX_URN, MAX_COLUMN = 500, 300  # characters, as in ColumnEdge
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


def column_pairs(aspects: Aspects) -> set[tuple[str, str, str, str]]:
    """Return the column-level edges of a table or data job: downstream URN and column, upstream URN and column.

    At most MAX_COLUMN_PAIRS are returned, because a line of many columns to many stands for each pair of them.
    """
    return set(itertools.islice(_column_pairs(aspects), MAX_COLUMN_PAIRS))


def _column_pairs(aspects: Aspects) -> Iterator[tuple[str, str, str, str]]:
    for line in columns(aspects):
        for down, up in itertools.product(map(split_column, line["to"]), map(split_column, line["from"])):
            if all(down) and all(up) and down != up:
                yield (*down, *up)


def split_column(column: str) -> tuple[str, str]:
    """Return the URN of the table and the simple path in a column's URN, or ("", "") if it is none, or too long."""
    table = table_of(column)
    path = simple_path(column.removeprefix("urn:li:schemaField:(").rpartition(",")[2].removesuffix(")"))
    fits = len(table) <= MAX_URN and len(path) <= MAX_COLUMN
    return (table, path) if table and path and fits else ("", "")


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
