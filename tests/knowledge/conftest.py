"""A small catalog, a curator, and a fixture that runs a test with each catalog implementation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, Permission

from foundation.people.caller import Caller
from foundation.people.models import Persona
from foundation.people.permissions import build_caller
from knowledge.catalog.bulk_write import AspectWrite, put_many
from knowledge.catalog.current import get_catalog
from knowledge.catalog.datahub import DataHubCatalog
from knowledge.catalog.embedded import LocalCatalog
from knowledge.catalog.interface import Catalog
from knowledge.models import CatalogAspect
from memory_project.models import User
from tests.conftest import person
from tests.fake_datahub import Faults, Handler, standin

ORDERS = "urn:li:dataset:(urn:li:dataPlatform:snowflake,sales.orders,PROD)"
REFUNDS = "urn:li:dataset:(urn:li:dataPlatform:snowflake,sales.refunds,PROD)"
MART = "urn:li:dataset:(urn:li:dataPlatform:snowflake,sales.mart,PROD)"
V2_COLUMN = "[version=2.0].[type=struct].[type=long].customer.id"


def column(path: str, kind: str = "VARCHAR") -> dict[str, Any]:
    family: dict[str, Any] = {"type": {"com.linkedin.schema.StringType": {}}}
    extra_fields = {"recursive": False, "isPartOfKey": False, "type": family}
    return {"fieldPath": path, "nullable": True, "nativeDataType": kind, "description": f"the {path}", **extra_fields}


def put(urn: str, aspect: str, value: Any) -> None:
    """Write an aspect as another program would, without our adapter: to the fake DataHub or to our tables."""
    if settings.DATAHUB_GMS_URL:
        Handler.store.put(urn, aspect, value)
    else:
        LocalCatalog().put(urn, aspect, value, {})


def everything() -> dict[tuple[str, str], Any]:
    """Return all latest aspects of the catalog, and of the entities that only our database has."""
    newest = CatalogAspect.objects.filter(is_latest=True, value__isnull=False)
    if not settings.DATAHUB_GMS_URL:
        return {(row.urn, row.aspect): row.value for row in newest}
    local_aspects = {(row.urn, row.aspect): row.value for row in newest.filter(urn__startswith="urn:li:prompt:")}
    remote_aspects = {key: versions[-1][0] for key, versions in Handler.store.versions.items()}
    return local_aspects | {key: value for key, value in remote_aspects.items() if value is not None}


def fill_catalog() -> None:
    aspects = small_catalog_aspects()
    if settings.DATAHUB_GMS_URL:
        for urn, aspect, value in aspects:
            Handler.store.put(urn, aspect, value)
    else:
        put_many(AspectWrite(urn, aspect, value, {}) for urn, aspect, value in aspects)


def small_catalog_aspects() -> Iterator[tuple[str, str, Any]]:
    for urn, name, fields in (
        (ORDERS, "sales.orders", [column("amount", "NUMBER"), column("status"), column(V2_COLUMN)]),
        (REFUNDS, "sales.refunds", [column("refund_id")]),
        (MART, "sales.mart", []),
    ):
        properties = {"name": name, "qualifiedName": name, "description": f"Table {name}."}
        yield urn, "datasetProperties", {**properties, "customProperties": {}, "tags": []}
        if fields:
            yield urn, "schemaMetadata", schema_of(name, fields)
    owners = [{"owner": "urn:li:corpuser:maya@example.org", "type": "TECHNICAL_OWNER"}]
    yield ORDERS, "ownership", {"owners": owners, "lastModified": STAMP}
    yield MART, "upstreamLineage", {"upstreams": [upstream(ORDERS), upstream(REFUNDS)]}
    term = {"name": "Net revenue", "definition": "After refunds.", "termSource": "INTERNAL", "customProperties": {}}
    yield "urn:li:glossaryTerm:net", "glossaryTermInfo", term
    yield "urn:li:domain:sales", "domainProperties", {"name": "Sales"}


STAMP = {"time": 0, "actor": "urn:li:corpuser:unknown"}


def upstream(urn: str) -> dict[str, Any]:
    return {"dataset": urn, "type": "TRANSFORMED", "auditStamp": STAMP}


def schema_of(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a complete schemaMetadata aspect, as ingestion writes it."""
    platform = {"com.linkedin.schema.MySqlDDL": {"tableSchema": ""}}
    extra_fields = {"version": 0, "hash": "", "platform": "urn:li:dataPlatform:snowflake", "platformSchema": platform}
    return {"schemaName": name, **extra_fields, "created": STAMP, "lastModified": STAMP, "fields": fields}


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
    return build_caller(cora_user, channel="test")


@pytest.fixture
def gms(transactional_db: None, settings: Any) -> Iterator[Faults]:
    """Configure a fake DataHub as catalog. The real SDK talks to it."""
    with datahub(settings) as faults:
        yield faults


@contextmanager
def datahub(settings: Any) -> Iterator[Faults]:
    with standin() as (address, faults):
        settings.DATAHUB_GMS_URL = address
        settings.DATAHUB_TIMEOUT_S = 60.0  # the machine may be busy; tests of the limit set their own
        DataHubCatalog.configured.cache_clear()
        fill_catalog()
        yield faults
        DataHubCatalog.configured.cache_clear()


@pytest.fixture(params=["local", "datahub"])
def either_catalog(request: pytest.FixtureRequest, transactional_db: None, settings: Any) -> Iterator[Catalog]:
    """Run the test with the embedded catalog and with a DataHub."""
    if request.param == "local":
        fill_catalog()
        yield get_catalog()
        return
    with datahub(settings):
        yield get_catalog()


@pytest.fixture
def lived_in(either_catalog: Catalog) -> Catalog:
    """A catalog that already has a tag, a term, a document, a property and an incident to remove."""
    for name in ("retention", "owner.team"):
        kind = {"valueType": "urn:li:dataType:datahub.string", "entityTypes": ["urn:li:entityType:datahub.dataset"]}
        put(f"urn:li:structuredProperty:{name}", "propertyDefinition", {"qualifiedName": name, **kind})
    team = {"propertyUrn": "urn:li:structuredProperty:owner.team", "values": [{"string": "sales"}]}
    put(ORDERS, "structuredProperties", {"properties": [team]})
    incident = {
        "title": "Old", "type": "OPERATIONAL", "entities": [ORDERS], "created": STAMP,
        "status": {"state": "ACTIVE", "lastUpdated": STAMP},
    }  # fmt: skip
    put("urn:li:incident:old", "incidentInfo", incident)
    put(ORDERS, "globalTags", {"tags": [{"tag": "urn:li:tag:Old"}, {"tag": "urn:li:tag:Kept"}]})
    put(ORDERS, "glossaryTerms", {"terms": [{"urn": "urn:li:glossaryTerm:old"}], "auditStamp": STAMP})
    document = {"title": "Old title", "contents": {"text": "Old text."}, "status": {"state": "PUBLISHED"}}
    stamps = {"created": STAMP, "lastModified": STAMP, "customProperties": {}}
    put("urn:li:document:old", "documentInfo", {**document, **stamps})
    return either_catalog
