"""What the catalog says about the things an insight names, beside what the insight claims."""

from __future__ import annotations

from typing import Any

from knowledge import catalog as catalogs
from knowledge.catalog import facts
from knowledge.catalog.port import CatalogPort, CatalogRefused, CatalogUnavailable
from knowledge.catalog.staleness import named
from knowledge.models import Insight

NEIGHBOURS = 10
COLUMNS_SHOWN = 50


def of_entity(catalog: CatalogPort, urn: str, *, lineage: bool = True) -> dict[str, Any]:
    """The entity's current description, columns, owners, tags and neighbours."""
    read = catalog.read([urn], facts.ASPECTS)[urn]
    aspects = {name: aspect.value for name, aspect in read.items() if aspect.value is not None}
    seen = facts.of(urn, aspects)
    shown: dict[str, Any] = {
        "urn": urn,
        "exists": bool(aspects) and not seen.removed,
        "name": seen.qualified_name,
        "description": seen.description,
        "owners": seen.owners,
        "tags": seen.tags,
        "glossary_terms": seen.terms,
        "domains": seen.domains,
        "links": seen.links,
        "deprecated": seen.deprecated,
        "columns": [
            {
                "column": c.simple_path,
                "type": c.native_type,
                "nullable": c.nullable,
                "description": c.description,
                "tags": list(c.tags),
                "terms": list(c.terms),
            }
            for c in seen.columns[:COLUMNS_SHOWN]
        ],
        "columns_total": len(seen.columns),
    }
    if seen.deprecated:
        shown["deprecation_note"] = seen.deprecation_note
    for direction in ("upstream", "downstream") if lineage else ():
        near = catalog.lineage(urn, direction=direction, hops=1, limit=NEIGHBOURS)
        shown[direction] = [node.urn for node in near]
    return shown


def beside(insight: Insight, *, catalog: CatalogPort | None = None) -> dict[str, Any]:
    """Evidence for every entity that the insight names, and where claim and catalog disagree. An outage is said.
    From a `catalog` at hand without lineage."""
    urns = named(insight.record)
    lineage, catalog = catalog is None, catalog or catalogs.readable()
    try:
        entities = [of_entity(catalog, urn, lineage=lineage) for urn in urns]
    except (CatalogUnavailable, CatalogRefused) as error:
        return {"entities": [], "disagreements": [], "degraded": True, "note": error.message}
    by_urn = {entity["urn"]: entity for entity in entities}
    shown: dict[str, Any] = {"entities": entities, "disagreements": _disagreements(insight, by_urn)}
    if note := catalogs.copy_note(catalog):
        shown |= {"degraded": True, "note": note}
    return shown


def _disagreements(insight: Insight, entities: dict[str, dict[str, Any]]) -> list[str]:
    found = []
    for urn, entity in entities.items():
        if not entity["exists"]:
            found.append(f"{urn} is not in the catalog")
        elif entity["deprecated"]:
            found.append(f"{entity['name']} is deprecated: {entity['deprecation_note'] or 'no note'}")
    for column in insight.record.related_columns:
        entity = entities[column["urn"]]
        known = {shown["column"] for shown in entity["columns"]}
        complete = entity["exists"] and 0 < entity["columns_total"] <= COLUMNS_SHOWN
        if complete and facts.simple_path(column["column"]) not in known:
            found.append(f"{entity['name']} has no column {column['column']}")
    for action in insight.suggested_actions:
        if action["action_type"] == "update_description" and not action["target"] and len(entities) == 1:
            (entity,) = entities.values()
            if entity["description"] and entity["description"] != action["detail"]:
                found.append(f"{entity['name']} is described otherwise: “{entity['description'][:200]}”")
    return found
