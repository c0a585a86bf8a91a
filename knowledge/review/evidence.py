"""Catalog evidence for reviewing an insight: the current metadata of its entities, and what contradicts the insight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knowledge.catalog import entity_view
from knowledge.catalog.current import copy_note, get_readable_catalog
from knowledge.catalog.interface import Catalog, CatalogRefused, CatalogUnavailable
from knowledge.freshness.baselines import hash_of, urns_of
from knowledge.models import CatalogAspect, EntityBaseline, Insight
from memories.texts.contradiction import contradiction

NEIGHBOURS = 10
COLUMNS_SHOWN = 50


def entity_evidence(
    catalog: Catalog, urn: str, *, lineage: bool = True, columns_from: int = 0, columns_most: int = COLUMNS_SHOWN
) -> dict[str, Any]:
    """Return an entity's current metadata, a page of its columns, and with `lineage` its direct neighbors.

    The result for a document includes the document's text.
    """
    entity = entity_view.load_entity(catalog, urn)
    summary: dict[str, Any] = {
        "urn": urn,
        "exists": entity.is_known and not entity.removed,
        "name": entity.qualified_name,
        "description": entity.description,
        "owners": entity.owners,
        "tags": entity.tags,
        "glossary_terms": entity.terms,
        "domains": entity.domains,
        "links": entity.links,
        "deprecated": entity.deprecated,
        "columns": [_column(column) for column in entity.columns[columns_from : columns_from + columns_most]],
        "columns_total": len(entity.columns),
    }
    if entity.deprecated:
        summary["deprecation_note"] = entity.deprecation_note
    if entity.document_text:
        summary["text"] = entity.document_text
    if entity.properties:
        summary["structured_properties"] = entity.properties
    if lineage:
        for direction in ("upstream", "downstream"):
            neighbors = catalog.lineage(urn, direction=direction, hops=1, limit=NEIGHBOURS)
            summary[direction] = [node.urn for node in neighbors]
    return summary


def _column(column: entity_view.CatalogColumn) -> dict[str, Any]:
    return {
        "column": column.simple_path,
        "type": column.native_type,
        "nullable": column.nullable,
        "description": column.description,
        "tags": list(column.tags),
        "terms": list(column.terms),
    }


def products_of(urn: str) -> list[str]:
    """Return the URNs of data products that list the entity as an asset.

    They are read from the embedded catalog, or from the copy of DataHub.
    """
    rows = CatalogAspect.objects.filter(aspect="dataProductProperties", is_latest=True)
    return sorted(rows.filter(value__contains={"assets": [{"destinationUrn": urn}]}).values_list("urn", flat=True))


def names_behind(catalog: Catalog, entity: Mapping[str, Any]) -> dict[str, str]:
    """Return display names by URN of the terms, domains, owners, tags, products and properties of the entity."""
    keys = ("glossary_terms", "domains", "owners", "tags", "products", "structured_properties")
    urns = {urn for key in keys for urn in entity.get(key) or ()}
    for column in entity["columns"]:
        urns.update(column["tags"], column["terms"])
    if not urns:
        return {}
    names = {}
    for urn, read in catalog.read(sorted(urns), entity_view.NAMING).items():
        aspects = {name: aspect.value for name, aspect in read.items() if aspect.value is not None}
        if name := entity_view.name_of(aspects):
            names[urn] = name
    return names


def evidence_for(insight: Insight, *, catalog: Catalog | None = None) -> dict[str, Any]:
    """Return the metadata of the insight's entities, and how the catalog disagrees with the insight.

    If the catalog can't be read, the result has no entities, but a note with the reason. If a `catalog` is given, the
    result contains no lineage.
    """
    urns = urns_of(insight.record)
    lineage = catalog is None
    catalog = catalog or get_readable_catalog()
    try:
        entities = [entity_evidence(catalog, urn, lineage=lineage) for urn in urns]
    except (CatalogUnavailable, CatalogRefused) as error:
        return {"entities": [], "disagreements": [], "degraded": True, "note": error.message}
    by_urn = {entity["urn"]: entity for entity in entities}
    evidence: dict[str, Any] = {"entities": entities, "disagreements": _disagreements(insight, by_urn)}
    if note := copy_note(catalog):
        evidence |= {"degraded": True, "note": note}
    return evidence


def _disagreements(insight: Insight, entities: dict[str, dict[str, Any]]) -> list[str]:
    disagreements = []
    for urn, entity in entities.items():
        if not entity["exists"]:
            disagreements.append(f"{urn} is not in the catalog")
        elif entity["deprecated"]:
            disagreements.append(f"{entity['name']} is deprecated: {entity['deprecation_note'] or 'no note'}")
    for column in insight.record.related_columns:
        entity = entities[column["urn"]]
        names = {row["column"] for row in entity["columns"]}
        complete = entity["exists"] and 0 < entity["columns_total"] <= COLUMNS_SHOWN
        if complete and entity_view.simple_path(column["column"]) not in names:
            disagreements.append(f"{entity['name']} has no column {column['column']}")
    hashes = dict(EntityBaseline.objects.filter(record=insight.pk).values_list("urn", "description_hash"))
    for urn, entity in entities.items():
        if entity["exists"] and urn in hashes and hashes[urn] != hash_of(entity["description"]):
            disagreements.append(
                f"the description of {entity['name']} has changed since the memory was written or verified"
            )
    for action in insight.suggested_actions:
        if action["action_type"] == "update_description" and not action["target"] and len(entities) == 1:
            (entity,) = entities.values()
            disagreements += _described_differently(entity, action["detail"])
    for entity in entities.values():
        disagreements += [
            line for line in _described_differently(entity, insight.record.content) if line not in disagreements
        ]
    return disagreements


def _described_differently(entity: Mapping[str, Any], claim: str) -> list[str]:
    reason = contradiction(claim, entity["description"])
    return [f"{entity['name']} is described differently ({reason}): “{entity['description'][:200]}”"] if reason else []
