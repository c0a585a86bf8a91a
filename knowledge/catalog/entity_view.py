"""A readable view of an entity's aspects: name, description, columns, owners, tags, deprecation, removal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from knowledge.catalog.interface import Catalog, entity_type

Aspects = Mapping[str, Mapping[str, Any]]

MAX_SEARCHED_TEXT = 20_000  # maximum number of characters of a document that are searched

# All aspects that pages and reviewers need, fetched in one read.
ASPECTS = (
    "datasetProperties", "editableDatasetProperties", "schemaMetadata", "editableSchemaMetadata", "ownership",
    "globalTags", "glossaryTerms", "domains", "deprecation", "institutionalMemory", "structuredProperties", "status",
    "upstreamLineage", "tagProperties", "glossaryTermInfo", "glossaryNodeInfo", "domainProperties", "documentInfo",
    "containerProperties", "editableContainerProperties", "chartInfo", "editableChartProperties", "dashboardInfo",
    "editableDashboardProperties", "dataJobInfo", "editableDataJobProperties", "dataFlowInfo",
    "editableDataFlowProperties", "subTypes", "propertyDefinition", "incidentInfo", "queryProperties", "promptInfo",
    "dataJobInputOutput", "dataProductProperties", "corpUserInfo", "corpUserEditableInfo", "corpGroupInfo",
)  # fmt: skip

# Entity type → aspects and keys of its description, in order of precedence: a text edited by people precedes an
# ingested one.
DESCRIPTIONS: dict[str, list[tuple[str, str]]] = {
    "dataset": [("editableDatasetProperties", "description"), ("datasetProperties", "description")],
    "container": [("editableContainerProperties", "description"), ("containerProperties", "description")],
    "chart": [("editableChartProperties", "description"), ("chartInfo", "description")],
    "dashboard": [("editableDashboardProperties", "description"), ("dashboardInfo", "description")],
    "dataJob": [("editableDataJobProperties", "description"), ("dataJobInfo", "description")],
    "dataFlow": [("editableDataFlowProperties", "description"), ("dataFlowInfo", "description")],
    "domain": [("domainProperties", "description")],
    "glossaryTerm": [("glossaryTermInfo", "definition")],
    "glossaryNode": [("glossaryNodeInfo", "definition")],
    "tag": [("tagProperties", "description")],
}
# Aspects and keys of an entity's name, in order of precedence.
NAMES = (
    ("datasetProperties", "name"), ("tagProperties", "name"), ("glossaryTermInfo", "name"),
    ("domainProperties", "name"), ("documentInfo", "title"), ("containerProperties", "name"),
    ("chartInfo", "title"), ("dashboardInfo", "title"), ("dataProductProperties", "name"),
    ("corpUserEditableInfo", "displayName"), ("corpUserInfo", "displayName"), ("corpUserInfo", "fullName"),
    ("corpGroupInfo", "displayName"), ("propertyDefinition", "displayName"), ("propertyDefinition", "qualifiedName"),
    ("dataJobInfo", "name"), ("dataFlowInfo", "name"), ("glossaryNodeInfo", "name"), ("schemaMetadata", "schemaName"),
)  # fmt: skip

NAMING = tuple(dict.fromkeys(aspect for aspect, _ in NAMES))


@dataclass(frozen=True)
class CatalogColumn:
    path: str  # as in the schema
    simple_path: str  # the path in DataHub's v1 form, without type and version tokens
    native_type: str
    nullable: bool
    description: str
    tags: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()


@dataclass(frozen=True)
class EntityView:
    urn: str
    name: str
    qualified_name: str
    description: str
    platform: str
    removed: bool
    deprecated: bool
    deprecation_note: str
    is_known: bool = True  # the catalog has at least one aspect of the entity
    document_text: str = ""
    properties: dict[str, list[str | float]] = field(default_factory=dict)  # property URN → its values
    owners: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    terms: list[str] = field(default_factory=list)
    domains: list[str] = field(default_factory=list)
    links: list[dict[str, str]] = field(default_factory=list)
    columns: list[CatalogColumn] = field(default_factory=list)

    def column(self, name: str) -> CatalogColumn | None:
        exact = next((column for column in self.columns if column.path == name), None)
        return exact or next((column for column in self.columns if column.simple_path == simple_path(name)), None)


def load_entity(catalog: Catalog, urn: str) -> EntityView:
    """Read one entity from the catalog. Raises CatalogUnavailable or CatalogRefused."""
    return load_entities(catalog, [urn])[urn]


def load_entities(catalog: Catalog, urns: Sequence[str]) -> dict[str, EntityView]:
    """Read several entities at once. Raises CatalogUnavailable or CatalogRefused."""
    return {
        urn: parse_entity(urn, {name: aspect.value for name, aspect in aspects.items() if aspect.value is not None})
        for urn, aspects in catalog.read(urns, ASPECTS).items()
    }


def parse_entity(urn: str, aspects: Aspects) -> EntityView:
    def at(aspect: str, key: str, default: Any = "") -> Any:
        return (aspects.get(aspect) or {}).get(key) or default

    name = name_of(aspects)
    texts = DESCRIPTIONS.get(entity_type(urn), [])
    return EntityView(
        urn=urn,
        name=name or short_name(urn),
        qualified_name=str(at("datasetProperties", "qualifiedName"))
        or (short_name(urn) if entity_type(urn) == "dataset" else name or short_name(urn)),
        description=next((str(at(aspect, key)) for aspect, key in texts if at(aspect, key)), ""),
        platform=platform(urn),
        removed=bool(at("status", "removed", False)),
        deprecated=bool(at("deprecation", "deprecated", False)),
        deprecation_note=str(at("deprecation", "note")),
        is_known=bool(aspects),
        document_text=str((at("documentInfo", "contents", {}) or {}).get("text") or ""),
        properties={
            str(assignment.get("propertyUrn", "")): [_plain(value) for value in assignment.get("values") or []]
            for assignment in at("structuredProperties", "properties", [])
        },
        owners=[str(owner.get("owner", "")) for owner in at("ownership", "owners", [])],
        tags=[str(tag.get("tag", "")) for tag in at("globalTags", "tags", [])],
        terms=[str(term.get("urn", "")) for term in at("glossaryTerms", "terms", [])],
        domains=[str(domain) for domain in at("domains", "domains", [])],
        links=[
            {"url": str(e.get("url", "")), "label": str(e.get("description", ""))}
            for e in at("institutionalMemory", "elements", [])
        ],
        columns=list(columns(aspects)),
    )


def name_of(aspects: Aspects) -> str:
    names = ((aspects.get(aspect) or {}).get(key) for aspect, key in NAMES)
    return next((str(name) for name in names if name), "")


def _plain(value: Any) -> str | float:
    """Unwrap a structured property's value: {"string": …} or {"double": …}."""
    inner = next(iter(value.values()), "") if isinstance(value, Mapping) else value
    return inner if isinstance(inner, int | float) else str(inner)


def columns(aspects: Aspects) -> Iterator[CatalogColumn]:
    """Yield the schema's columns. Descriptions edited by people take precedence over ingested ones."""
    edited = {
        str(info.get("fieldPath", "")): info
        for info in (aspects.get("editableSchemaMetadata") or {}).get("editableSchemaFieldInfo") or []
    }
    for entry in (aspects.get("schemaMetadata") or {}).get("fields") or []:
        path = str(entry.get("fieldPath", ""))
        info = edited.get(path, {})
        yield CatalogColumn(
            path=path,
            simple_path=simple_path(path),
            native_type=str(entry.get("nativeDataType", "")),
            nullable=bool(entry.get("nullable", False)),
            description=str(info.get("description") or entry.get("description") or ""),
            tags=tuple(str(tag.get("tag", "")) for tag in (info.get("globalTags") or {}).get("tags") or []),
            terms=tuple(str(term.get("urn", "")) for term in (info.get("glossaryTerms") or {}).get("terms") or []),
        )


def simple_path(path: str) -> str:
    """Return a field path in v1 form: `address.zip` for `[version=2.0].[type=struct].address.[type=string].zip`."""
    return ".".join(token for token in re.sub(r"\[[^\[\]]*\]", "", path).split(".") if token)


def short_name(urn: str) -> str:
    """Return the readable part of a URN: `sales.orders` for urn:li:dataset:(…:snowflake,sales.orders,PROD)."""
    key = urn.split(":", 3)[-1]
    if key.startswith("(") and key.endswith(")"):
        parts = key[1:-1].split(",")
        return parts[1] if len(parts) > 2 else parts[-1]
    return key


def platform(urn: str) -> str:
    match = re.search(r"urn:li:dataPlatform:([^,)]+)", urn)
    return match.group(1) if match else ""
