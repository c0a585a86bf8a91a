"""A small catalog, a curator, and each catalog implementation in turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission

from knowledge import catalog as catalogs
from knowledge.catalog.datahub import DataHubCatalog
from knowledge.catalog.local import LocalCatalog
from knowledge.catalog.port import CatalogPort
from memories.access import Caller, caller_for
from memories.models import Persona
from memory_project.models import User
from tests.conftest import person
from tests.gms import Faults, standin

ORDERS = "urn:li:dataset:(urn:li:dataPlatform:snowflake,sales.orders,PROD)"
REFUNDS = "urn:li:dataset:(urn:li:dataPlatform:snowflake,sales.refunds,PROD)"
MART = "urn:li:dataset:(urn:li:dataPlatform:snowflake,sales.mart,PROD)"
V2_COLUMN = "[version=2.0].[type=struct].[type=long].customer.id"


def column(path: str, kind: str = "VARCHAR") -> dict[str, Any]:
    return {"fieldPath": path, "nullable": True, "nativeDataType": kind, "description": f"the {path}"}


def fill_catalog() -> None:
    catalog = LocalCatalog()
    for urn, name, fields in (
        (ORDERS, "sales.orders", [column("amount", "NUMBER"), column("status"), column(V2_COLUMN)]),
        (REFUNDS, "sales.refunds", [column("refund_id")]),
        (MART, "sales.mart", []),
    ):
        catalog.put(
            urn, "datasetProperties", {"name": name, "qualifiedName": name, "description": f"Table {name}."}, {}
        )
        if fields:
            catalog.put(urn, "schemaMetadata", {"schemaName": name, "fields": fields}, {})
    owners = [{"owner": "urn:li:corpuser:maya@example.org", "type": "TECHNICAL_OWNER"}]
    catalog.put(ORDERS, "ownership", {"owners": owners}, {})
    catalog.put(MART, "upstreamLineage", {"upstreams": [{"dataset": ORDERS}, {"dataset": REFUNDS}]}, {})
    catalog.put(
        "urn:li:glossaryTerm:net", "glossaryTermInfo", {"name": "Net revenue", "definition": "After refunds."}, {}
    )


@pytest.fixture
def small_catalog(db: None) -> None:
    fill_catalog()


@pytest.fixture
def curators(db: None) -> Group:
    group, _ = Group.objects.get_or_create(name="Curators")
    group.permissions.add(Permission.objects.get(codename="curate"))
    return group


@pytest.fixture
def cora_user(personas: dict[str, Persona], curators: Group) -> User:
    user = person("cora@example.org", personas["sales"], is_staff=True)
    user.groups.add(curators)
    return User.objects.get(pk=user.pk)


@pytest.fixture
def cora(cora_user: User) -> Caller:
    """A curator of the persona sales."""
    return caller_for(cora_user, door="test")


@pytest.fixture
def gms(transactional_db: None, settings: Any) -> Iterator[Faults]:
    """The configured catalog is a DataHub: the stand-in, spoken to by the real SDK."""
    fill_catalog()
    with datahub(settings) as faults:
        yield faults


@contextmanager
def datahub(settings: Any) -> Iterator[Faults]:
    with standin() as (address, faults):
        settings.DATAHUB_GMS_URL = address
        settings.DATAHUB_TIMEOUT_S = 2.0
        DataHubCatalog.configured.cache_clear()
        yield faults
        DataHubCatalog.configured.cache_clear()


@pytest.fixture(params=["local", "datahub"])
def either_catalog(request: pytest.FixtureRequest, transactional_db: None, settings: Any) -> Iterator[CatalogPort]:
    """One test, both catalogs."""
    fill_catalog()
    if request.param == "local":
        yield catalogs.current()
        return
    with datahub(settings):
        yield catalogs.current()


@pytest.fixture
def lived_in(either_catalog: CatalogPort) -> CatalogPort:
    """The catalog with a tag, a term, a document, a property and an incident to take away."""
    local = LocalCatalog()
    for name in ("retention", "owner.team"):
        local.put(f"urn:li:structuredProperty:{name}", "propertyDefinition", {"qualifiedName": name}, {})
    team = {"propertyUrn": "urn:li:structuredProperty:owner.team", "values": [{"string": "sales"}]}
    local.put(ORDERS, "structuredProperties", {"properties": [team]}, {})
    incident = {"title": "Old", "entities": [ORDERS], "status": {"state": "ACTIVE"}}
    local.put("urn:li:incident:old", "incidentInfo", incident, {})
    local.put(ORDERS, "globalTags", {"tags": [{"tag": "urn:li:tag:Old"}, {"tag": "urn:li:tag:Kept"}]}, {})
    stamp = {"time": 0, "actor": "urn:li:corpuser:x"}
    local.put(ORDERS, "glossaryTerms", {"terms": [{"urn": "urn:li:glossaryTerm:old"}], "auditStamp": stamp}, {})
    local.put("urn:li:document:old", "documentInfo", {"title": "Old title", "contents": {"text": "Old text."}}, {})
    return either_catalog
