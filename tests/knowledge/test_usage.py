"""A rollback says who uses the entities that it removes."""

from __future__ import annotations

import pytest
from django.urls import reverse

from foundation.people.caller import Caller
from knowledge.catalog.datahub import DataHubCatalog
from knowledge.catalog.mirror import mirror
from knowledge.catalog.usage import CatalogUsage
from knowledge.changesets import rollback
from knowledge.changesets.apply import Applied
from knowledge.mcp_tools.curate import apply_knowledge
from memory_project.models import User
from tests.fake_datahub import Faults
from tests.knowledge.changeset_examples import apply, change
from tests.knowledge.conftest import MART, ORDERS, REFUNDS, STAMP, put
from tests.pages import browser, run_action, text_of

pytestmark = pytest.mark.django_db


def attach(term: str, *urns: str) -> None:
    for urn in urns:
        put(urn, "glossaryTerms", {"terms": [{"urn": term}], "auditStamp": STAMP})


def users_of_created(cora: Caller, applied: Applied) -> list[CatalogUsage]:
    return rollback.roll_back_preview(cora, changeset_id=applied.changeset.pk).used


@pytest.fixture
def created(alice: Caller, cora: Caller, request: pytest.FixtureRequest) -> tuple[Applied, str]:
    """A changeset that created a term and attached it to ORDERS, and the term's URN."""
    request.getfixturevalue("small_catalog")
    applied = apply(alice, cora, change("create_glossary_term", "Gross revenue", "Before refunds."))
    return applied, next(row.urn for row in applied.changes if row.creates)


def test_references_of_the_changeset_itself_are_no_use(created: tuple[Applied, str], cora: Caller) -> None:
    applied, _ = created
    preview = apply_knowledge(cora, "rollback", changeset_id=applied.changeset.pk, dry_run=True)
    assert "removed_in_use" not in preview
    result = rollback.roll_back(cora, changeset_id=applied.changeset.pk)
    assert (result.changeset.state, result.used) == ("rolled_back", [])


def test_the_dry_run_and_the_result_name_the_users_of_a_term(created: tuple[Applied, str], cora: Caller) -> None:
    applied, term = created
    attach(term, MART)
    info = {"fieldPath": "status", "glossaryTerms": {"terms": [{"urn": term}], "auditStamp": STAMP}}
    for urn in (ORDERS, REFUNDS):  # the column of ORDERS is not what the changeset wrote
        put(urn, "editableSchemaMetadata", {"editableSchemaFieldInfo": [info]})
    users = [{"urn": urn, "name": name} for urn, name in ((MART, "sales.mart"), (ORDERS, "sales.orders"))]
    preview = apply_knowledge(cora, "rollback", changeset_id=applied.changeset.pk, dry_run=True)
    (usage,) = preview["removed_in_use"]
    assert (usage["urn"], usage["name"], usage["users_total"]) == (term, "Gross revenue", 3)
    assert usage["users"][:2] == users
    sentence = "Gross revenue is used by sales.mart, sales.orders, sales.refunds"
    assert sentence in preview["message"]
    put(REFUNDS, "status", {"removed": True})
    done = apply_knowledge(cora, "rollback", changeset_id=applied.changeset.pk, confirm=True)
    assert done["removed_in_use"][0]["users"] == users
    assert "Gross revenue is used by sales.mart, sales.orders;" in done["message"]


def test_a_created_property_and_a_document_have_users_too(small_catalog: None, alice: Caller, cora: Caller) -> None:
    changes = [
        change("define_structured_property", "cost.center", "Who pays."),
        change("add_context_document", "Two selling seasons", "We have two."),
    ]
    applied = apply(alice, cora, *changes)
    document = next(row.urn for row in applied.changes if row.aspect == "documentInfo")
    cost = "urn:li:structuredProperty:cost.center"
    put(MART, "structuredProperties", {"properties": [{"propertyUrn": cost, "values": [{"string": "x"}]}]})
    put("urn:li:document:x", "documentInfo", {"title": "Seasons", "relatedDocuments": [{"document": document}]})
    result = rollback.roll_back(cora, changeset_id=applied.changeset.pk)
    assert sorted(map(str, result.used)) == [
        "Center is used by sales.mart",
        "Two selling seasons is used by Seasons",
    ]


def test_an_incident_stays_so_nobody_loses_it(small_catalog: None, alice: Caller, cora: Caller) -> None:
    applied = apply(alice, cora, change("raise_incident", "Late again", "The load is late."))
    incident = next(row.urn for row in applied.changes if row.creates)
    put(MART, "institutionalMemory", {"elements": [{"url": incident}]})
    assert users_of_created(cora, applied) == []


def test_pages_name_the_users(created: tuple[Applied, str], cora_user: User) -> None:
    applied, term = created
    attach(term, MART)
    sentence = "Gross revenue is used by sales.mart"
    client = browser(cora_user)
    assert sentence in text_of(client, "roll-back", applied.changeset.pk)
    changes = "admin:knowledge_changeset_changelist"
    assert sentence in run_action(client, "roll_back", applied.changeset.pk, list_url=changes).content.decode()
    done = client.post(reverse("roll-back", args=[applied.changeset.pk]), follow=True)
    assert sentence in done.content.decode()


@pytest.mark.django_db(transaction=True)
def test_the_users_in_a_datahub_are_those_of_its_copy(gms: Faults, alice: Caller, cora: Caller) -> None:
    applied = apply(alice, cora, change("create_glossary_term", "Gross revenue", "Before refunds."))
    term = next(row.urn for row in applied.changes if row.creates)
    attach(term, MART)
    (unknown,) = users_of_created(cora, applied)
    assert str(unknown) == "Gross revenue (its users are unknown, because DataHub was not copied)"
    list(mirror(DataHubCatalog.configured()))
    (usage,) = users_of_created(cora, applied)
    assert list(usage.users) == [MART]
    assert "by the copy of DataHub of" in str(usage)
