"""Memories that name no entity: what is offered, and how that is settled."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import caches
from django.test import Client
from django.urls import reverse

from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from foundation.tools.declaration import Call
from knowledge.catalog import metadata_files
from knowledge.catalog.name_resolution import urn_of
from knowledge.context.attached_memories import attach_memories
from knowledge.entities.likely_entities import likely_entities
from knowledge.freshness import catalog_load
from knowledge.insights.capture import capture
from knowledge.models import CatalogEntity
from knowledge.operations import Capture
from knowledge.review import decisions
from memories import services
from memories.history import history
from memories.mcp_tools import memory_manage
from memories.models import MemoryRecord
from memories.operations import AssignEntities, Remember, Revise, StoreNote, Supersede
from memories.writing import entity_assignment, undo
from memories.writing.bulk_import import remember_many
from memory_project.exchange.imports import report, staging, taking_over
from memory_project.exchange.imports.models import Import
from memory_project.models import User
from memory_project.operating import demo
from tests.jobs import ImportJobs, work_off
from tests.rest_client import client as api_client
from tests.rest_client import post

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).resolve().parents[2]
CLAIM = "A basket counts as abandoned after thirty minutes."


@pytest.fixture(autouse=True)
def demo_catalog(db: None) -> Iterator[None]:
    caches["calls"].clear()
    list(catalog_load.load(metadata_files.read_file(demo.FOLDER / "catalog.json")))
    yield
    caches["calls"].clear()


def remember(caller: Caller, content: str = CLAIM, **fields: Any) -> MemoryRecord:
    return services.remember(caller, Remember.read({"content": content, **fields})).record


def settle(caller: Caller, record: MemoryRecord, *names: str, **fields: Any) -> MemoryRecord:
    operation = AssignEntities.read({"id": record.pk, "entity_urns": list(names), **fields})
    return entity_assignment.assign_entities(caller, operation)


def offered(caller: Caller, record: MemoryRecord) -> list[str]:
    return [candidate.name for candidate in entity_assignment.offer(caller, [record]).of(record)]


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({}, True),
        ({"entity_urns": ["fernhill.web.carts"]}, False),
        ({"dimension": "preference"}, False),
        ({"dimension": "event"}, False),
    ],
)
def test_only_facts_about_data_that_name_no_entity_are_unsettled(
    alice: Caller, fields: dict[str, Any], asked: bool
) -> None:
    assert remember(alice, **fields).unsettled is asked


def test_notes_are_not_asked_about(alice: Caller) -> None:
    assert not services.store_note(alice, StoreNote(text=CLAIM)).record.unsettled


def test_nothing_is_asked_without_a_catalog(alice: Caller) -> None:
    CatalogEntity.objects.all().delete()
    assert not remember(alice).unsettled


def test_the_answer_offers_entities_with_reasons_and_one_call_settles_it(alice: Caller) -> None:
    answer = memory_manage(alice, "remember", content=CLAIM)
    first = answer["entity_candidates"][0]
    assert (first["name"], "“basket”" in first["why"]) == ("fernhill.web.carts", True)
    done = memory_manage(alice, "settle", id=answer["id"], entity_urns=[first["urn"]])
    assert done["message"] == "settled: it is about fernhill.web.carts"
    got = memory_manage(alice, "get", id=answer["id"])
    assert got["memory"]["entity_urns"] == [first["urn"]]
    assert "entity_candidates" not in got


def test_about_nothing_is_an_answer_and_is_not_asked_again(alice: Caller) -> None:
    record = settle(alice, remember(alice))
    assert (record.entity_urns, record.unsettled) == ([], False)
    corrected = services.supersede(
        alice, Supersede.read({"id": record.pk, "content": "A basket is abandoned after an hour."})
    ).record
    assert not corrected.unsettled


def test_an_edit_that_names_entities_settles_it(alice: Caller) -> None:
    record = remember(alice)
    urn = urn_of("fernhill.web.carts")
    assert not services.revise(alice, Revise.read({"id": record.pk, "entity_urns": [urn]})).unsettled
    with pytest.raises(Conflict, match="is about"):
        settle(alice, record)


def test_a_correction_keeps_the_question_and_the_answer(alice: Caller) -> None:
    record = remember(alice)
    open_one = services.supersede(
        alice, Supersede.read({"id": record.pk, "content": "A basket is abandoned after an hour."})
    ).record
    assert open_one.unsettled
    settle(alice, open_one, "fernhill.web.carts")
    again = services.supersede(
        alice, Supersede.read({"id": open_one.pk, "content": "A basket is abandoned after two hours."})
    ).record
    assert (again.entity_urns, again.unsettled) == ([urn_of("fernhill.web.carts")], False)


def test_settling_is_undone_with_its_columns(alice: Caller) -> None:
    record = remember(alice)
    urn = urn_of("fernhill.web.carts")
    column = {"urn": urn, "column": "checked_out", "relevance": "what it is about"}
    settle(alice, record, urn, related_columns=[column])
    undone = undo.undo(alice, record_id=record.pk, change="settle")
    assert (undone.entity_urns, undone.related_columns, undone.unsettled) == ([], [], True)
    assert [change.change for change in history(alice, undone)][:2] == ["undo", "settle"]


@pytest.mark.parametrize(("who", "error"), [("bob", Forbidden), ("olga", NotFound)])
def test_only_the_owner_settles(alice: Caller, request: Any, who: str, error: type[Exception]) -> None:
    record = remember(alice)
    other = request.getfixturevalue(who)
    with pytest.raises(error):
        settle(other, record)
    assert offered(other, record) == []
    record.refresh_from_db()
    assert record.unsettled


def test_an_ambiguous_name_lists_the_candidates_and_writes_nothing(alice: Caller) -> None:
    record = remember(alice)
    other = "urn:li:dataset:(urn:li:dataPlatform:oracle,archive.carts,PROD)"
    properties = {"name": "carts", "qualifiedName": "archive.carts"}
    list(
        catalog_load.load(
            [
                {
                    "entityType": "dataset",
                    "entityUrn": other,
                    "changeType": "UPSERT",
                    "aspectName": "datasetProperties",
                    "aspect": {"json": properties},
                }
            ]
        )
    )
    with pytest.raises(Invalid) as error:
        settle(alice, record, "carts")
    assert other in error.value.allowed
    assert MemoryRecord.objects.get(pk=record.pk).unsettled


def test_columns_without_an_entity_are_refused(alice: Caller) -> None:
    column = {"urn": "fernhill.web.carts", "column": "value", "relevance": "what it is about"}
    with pytest.raises(Invalid, match="entity_urns"):
        settle(alice, remember(alice), related_columns=[column])


def test_what_the_last_call_was_about_comes_first(alice: Caller) -> None:
    record = remember(alice, "Rows of the last two days are incomplete.")
    assert "fernhill.web.search_terms" not in offered(alice, record)
    sql = "SELECT term, searches FROM fernhill.web.search_terms WHERE day > current_date - 7"
    attach_memories(alice, Call("query_sql", {"sql": sql}, {}))
    assert offered(alice, record)[0] == "fernhill.web.search_terms"
    why = entity_assignment.offer(alice, [record]).of(record)[0].why
    assert why.startswith("your last calls were about it")


def test_calls_of_others_give_no_candidates(alice: Caller, bob: Caller) -> None:
    attach_memories(bob, Call("query_sql", {"sql": "SELECT term FROM fernhill.web.search_terms"}, {}))
    record = remember(alice, "Rows of the last two days are incomplete.")
    assert "fernhill.web.search_terms" not in offered(alice, record)


def test_an_entity_of_a_memory_that_the_caller_may_not_read_is_not_offered(alice: Caller, olga: Caller) -> None:
    text = "The till of the café is counted twice a month by two people."
    remember(olga, text, entity_urns=["fernhill.finance.fx_rates"], visibility="private")
    assert "fernhill.finance.fx_rates" not in offered(alice, remember(alice, text))


def test_a_similar_memory_gives_its_entity(alice: Caller, bob: Caller) -> None:
    remember(bob, "The till of the café is counted twice a month.", entity_urns=["fernhill.finance.fx_rates"])
    record = remember(alice, "The till of the café is counted twice each month.")
    candidates = entity_assignment.offer(alice, [record]).of(record)
    assert [c.why for c in candidates if c.name == "fernhill.finance.fx_rates"] == ["a similar memory is about it"]


def test_an_approved_insight_waits_with_its_entities(alice: Caller, ada: Caller) -> None:
    captured = capture(alice, Capture.read({"insight_text": CLAIM, "category": "business_context"}))
    record = captured.insight.record
    assert record.unsettled
    decisions.approve(ada, insight_id=record.pk, override=True)
    waiting = settle(alice, record, "fernhill.web.carts")
    assert "curator" in waiting.pending_message
    assert MemoryRecord.objects.get(pk=record.pk).unsettled


def test_imported_facts_become_unsettled(alice: Caller) -> None:
    stored = remember_many(alice, facts=[{"content": CLAIM}, {"content": "I like tea.", "dimension": "preference"}])
    assert [record.unsettled for record, _ in stored] == [True, False]


def test_most_claims_get_their_entity_first(alice: Caller) -> None:
    claims = json.loads((ROOT / "bench/entity_candidates.json").read_text())
    known = [claim for claim in claims if claim["about"] and not {"held_out", "recent"} & claim.keys()]
    records = [MemoryRecord(content=claim["text"], created_by=alice.email) for claim in known]
    found, _ = likely_entities(alice, records)
    offered = [found[record.pk][: entity_assignment.OFFERED] for record in records]
    names = [[c.urn if "glossaryTerm" in c.urn else c.name for c in candidates] for candidates in offered]
    first = sum(row[0] in claim["about"] for row, claim in zip(names, known, strict=True) if row)
    among = sum(bool(set(row) & set(claim["about"])) for row, claim in zip(names, known, strict=True))
    assert (len(known), first >= 20, among >= 23) == (25, True, True)


# -- pages and imports -------------------------------------------------------------------------------------------


def page_of(user: User, address: str, **params: str) -> str:
    client = Client()
    client.force_login(user)
    return " ".join(client.get(address, params).content.decode().split())


def test_the_page_of_a_memory_asks_its_owner_alone(alice: Caller, alice_user: User, bob_user: User) -> None:
    record = remember(alice)
    address = reverse("memory", args=[record.pk])
    assert "What is it about?" in page_of(alice_user, address)
    assert "What is it about?" not in page_of(bob_user, address)
    client, form = Client(), {"about": f"{urn_of('fernhill.web.carts')} checked_out"}
    client.force_login(bob_user)
    client.post(reverse("change-memory", args=[record.pk, "settle"]), form)
    record.refresh_from_db()
    assert record.unsettled
    client.force_login(alice_user)
    client.post(reverse("change-memory", args=[record.pk, "settle"]), form)
    record.refresh_from_db()
    assert (record.entity_urns, [c["column"] for c in record.related_columns]) == (
        [urn_of("fernhill.web.carts")],
        ["checked_out"],
    )
    said = client.get(address).content.decode()  # its message has the button
    assert said.count(f'action="{reverse("change-memory", args=[record.pk, "undo"])}"') == 1
    assert "You have said" not in said
    assert "You have said" in page_of(alice_user, address)


@pytest.mark.parametrize(
    ("form", "settled"),
    [
        ({"about": "nothing"}, True),
        ({"entity_urns": "web.carts"}, True),
        ({"entity_urns": "no such"}, False),
        ({}, False),
    ],
)
def test_the_other_answers_of_the_page(alice: Caller, alice_user: User, form: dict[str, str], settled: bool) -> None:
    record, client = remember(alice), Client()
    client.force_login(alice_user)
    client.post(reverse("change-memory", args=[record.pk, "settle"]), form)
    record.refresh_from_db()
    assert record.unsettled is not settled


def test_the_filter_lists_ones_own_unsettled_memories_with_their_buttons(
    alice: Caller, bob: Caller, alice_user: User, bob_user: User
) -> None:
    remember(alice)
    remember(alice, "Baskets are bought or not.", entity_urns=["fernhill.web.carts"])
    client = Client()
    client.force_login(alice_user)
    page = client.get("/", {"about": "unsettled"})
    assert [record.content for record in page.context["result"].records] == [CLAIM]
    assert f'value="{urn_of("fernhill.web.carts")}"' in page.content.decode()
    assert 'value="unsettled"' not in page_of(bob_user, "/")


def test_an_import_says_how_many_will_be_unsettled_and_a_later_version_keeps_the_answer(alice: Caller) -> None:
    rows = ["content,dimension,entities,id", f"{CLAIM},,,a", "I like green tea.,preference,,b", "A fact.,,web.carts,c"]
    csv = "\n".join(rows)
    created = imported(alice, csv)
    assert report.without_entities(created) == 1
    taking_over.start(alice, import_id=created.pk)
    work_on(created)
    record = MemoryRecord.objects.get(unsettled=True)
    settle(alice, record, "fernhill.web.carts")
    later = imported(alice, csv.replace("thirty", "forty"))
    report.choose_rows(alice, import_id=later.pk, chosen=True, outcome="conflicting")
    taking_over.start(alice, import_id=later.pk)
    work_on(later)
    corrected = MemoryRecord.objects.get(supersedes=record)
    assert (corrected.entity_urns, corrected.unsettled) == ([urn_of("fernhill.web.carts")], False)


def imported(caller: Caller, text: str) -> Import:
    created = staging.start(caller, file=io.BytesIO(text.encode()), name="facts.csv")
    work_on(created)
    return created


def work_on(created: Import) -> None:
    work_off(ImportJobs(), created.pk)
    created.refresh_from_db()


def test_rest_lists_and_settles_ones_own(alice: Caller, alice_user: User, bob_user: User, olga_user: User) -> None:
    record = remember(alice)
    urn, path = urn_of("fernhill.web.carts"), f"/api/v1/memories/{remember(alice).pk.hex}/settle/"

    def settled_by(user: User) -> int:
        return int(post(api_client(user), path, {"entity_urns": [urn]}).status_code)

    listed = api_client(alice_user).get("/api/v1/memories/?unsettled=true").json()["items"]
    assert [(item["id"], item["unsettled"]) for item in listed] == [(record.pk.hex, True)]
    assert [settled_by(user) for user in (olga_user, bob_user, alice_user, alice_user)] == [404, 403, 200, 409]
    assert api_client(alice_user).get("/api/v1/memories/?unsettled=true").json()["items"] == []
