"""Staleness detection: a memory becomes stale, with the reason, only if an entity it depends on has changed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from foundation.operations.errors import Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from knowledge.catalog.datahub import DataHubCatalog, _changed_entity
from knowledge.catalog.embedded import LocalCatalog
from knowledge.catalog.interface import Write, WriteRun
from knowledge.changesets import rollback
from knowledge.changesets.apply import apply
from knowledge.freshness import stale_detection, stale_review
from knowledge.freshness.catalog_events import follow_once
from knowledge.insights.capture import capture
from knowledge.insights.lifecycle import edit
from knowledge.mcp_tools.catalog import catalog_lineage
from knowledge.models import CatalogAspect, CatalogCursor, CatalogEntity, EntityBaseline, EntityState
from knowledge.operations import Apply, Capture, Edit
from knowledge.review.decisions import approve
from knowledge.tasks import check_freshness
from memories import services
from memories.mcp_tools import memory_manage, memory_recall
from memories.models import MemoryRecord, Status
from memories.operations import Forget, Remember, Revise, Share, Supersede, Verify
from tests.fake_datahub import Faults, Handler
from tests.knowledge.conftest import MART, ORDERS, REFUNDS, V2_COLUMN, column, datahub, put, schema_of

pytestmark = pytest.mark.django_db


def about(caller: Caller, text: str, *columns: str, urn: str = ORDERS) -> MemoryRecord:
    related_columns = [{"urn": urn, "column": name, "relevance": "what it is about"} for name in columns]
    return services.remember(
        caller, Remember.read({"content": text, "entity_urns": [urn], "related_columns": related_columns})
    ).record


def schema(*fields: dict[str, Any], urn: str = ORDERS) -> None:
    put(urn, "schemaMetadata", schema_of("x", list(fields)))


def status(record: MemoryRecord) -> tuple[str, str]:
    record.refresh_from_db()
    return record.status, record.stale_reason


@pytest.mark.django_db(transaction=True)
def test_a_removed_column_makes_only_memories_about_that_column_stale(small_catalog: None, alice: Caller) -> None:
    about_column = about(alice, "Amounts are gross of tax.", "amount")
    neighbor = about(alice, "Status 7 means that it was returned.", "status")
    general = about(alice, "Orders come in with two days of delay.")
    schema(column("status"))
    swept = stale_detection.check_all_entities(50)
    assert (swept.checked, swept.stale) == (3, 1)
    assert status(about_column) == (Status.STALE, "sales.orders: the column amount was removed")
    assert status(neighbor)[0] == status(general)[0] == Status.ACTIVE
    notes = dict(EntityBaseline.objects.values_list("record_id", "to_verify"))
    assert "the column amount was removed" in notes[neighbor.pk]
    assert "the column amount was removed" in notes[general.pk]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (column("amount", "VARCHAR"), "changed its type from NUMBER to VARCHAR"),
        ({**column("amount", "NUMBER"), "nullable": False}, "may no longer be empty"),
    ],
)
def test_a_changed_column_is_reported_with_old_and_new_value(
    small_catalog: None, alice: Caller, after: dict[str, Any], reason: str
) -> None:
    record = about(alice, "Amounts are gross of tax.", "amount")
    schema(after, column("status"))
    stale_detection.check_all_entities(50)
    assert reason in status(record)[1]


@pytest.mark.django_db(transaction=True)
def test_a_deprecation_is_reported_with_its_replacement(small_catalog: None, alice: Caller) -> None:
    record = about(alice, "Orders come in with two days of delay.")
    put(
        ORDERS,
        "deprecation",
        {"deprecated": True, "note": "use the mart", "replacement": MART, "actor": "urn:li:corpuser:x"},
    )
    stale_detection.check_all_entities(50)
    assert status(record) == (Status.STALE, "sales.orders was deprecated, replaced by sales.mart: use the mart")


def test_an_earlier_deprecation_does_not_make_a_new_memory_stale(small_catalog: None, alice: Caller) -> None:
    put(ORDERS, "deprecation", {"deprecated": True, "note": "use the mart", "actor": "urn:li:corpuser:x"})
    record = about(alice, "Orders are deprecated in favour of the mart.")
    stale_detection.check_all_entities(50)
    assert status(record)[0] == Status.ACTIVE


@pytest.mark.django_db(transaction=True)
def test_a_removed_entity_makes_memories_stale_and_an_unknown_one_does_not(small_catalog: None, alice: Caller) -> None:
    unknown = about(alice, "A table that nobody has catalogued.", urn=ORDERS.replace("orders", "nowhere"))
    memory = about(alice, "Orders come in with two days of delay.")
    LocalCatalog().write(Write(ORDERS, "status", ("removed",), "add", True), WriteRun("x", "x"))
    stale_detection.check_all_entities(50)
    assert status(unknown)[0] == Status.ACTIVE
    assert status(memory) == (Status.STALE, "sales.orders is no longer in the catalog")


def test_an_empty_catalog_makes_nothing_stale(small_catalog: None, alice: Caller) -> None:
    record = about(alice, "Orders come in with two days of delay.")
    CatalogAspect.objects.all().delete()
    CatalogEntity.objects.all().delete()
    assert "empty" in stale_detection.check_all_entities(50).note
    assert status(record)[0] == Status.ACTIVE


def test_an_outage_makes_nothing_stale(gms: Faults, alice: Caller, settings: Any) -> None:
    record = about(alice, "Orders come in with two days of delay.")
    stale_detection.catch_up([record.pk])
    settings.DATAHUB_GMS_URL = "http://127.0.0.1:9"
    settings.DATAHUB_TIMEOUT_S = 0.3
    DataHubCatalog.configured.cache_clear()
    assert "failed" in check_freshness()
    assert status(record)[0] == Status.ACTIVE
    assert "failed" in Client().get("/healthz").json()["catalog"]


@pytest.mark.django_db(transaction=True)
def test_a_verified_memory_stays_active(small_catalog: None, alice: Caller) -> None:
    record = about(alice, "Amounts are gross of tax.", "amount")
    schema(column("status"))
    stale_detection.check_all_entities(50)
    assert memory_recall(alice, query="amounts gross of tax").data["count"] == 0
    assert memory_manage(alice, "review_stale").data["total"] == 1
    services.verify(alice, Verify(record_id=record.pk, note="it moved to the lines"))
    assert stale_detection.check_all_entities(50).stale == 0
    assert status(record)[0] == Status.ACTIVE


@pytest.mark.parametrize("operation", ["revise", "supersede"])
def test_revising_and_correcting_take_a_new_baseline(small_catalog: None, alice: Caller, operation: str) -> None:
    record = about(alice, "Amounts are gross of tax.", "amount")
    schema(column("status"))
    stale_detection.check_all_entities(50)
    text = "Amounts are on the order lines."
    if operation == "revise":
        current = services.revise(alice, Revise(record_id=record.pk, content=text))
    else:
        current = services.supersede(alice, Supersede(record_id=record.pk, content=text)).record
    assert stale_detection.check_all_entities(50).stale == 0
    assert status(current)[0] == Status.ACTIVE


@pytest.mark.django_db(transaction=True)
def test_applying_an_insight_does_not_make_that_insight_stale(small_catalog: None, alice: Caller, cora: Caller) -> None:
    memory = about(alice, "Orders come in with two days of delay.")
    insight = capture(
        alice,
        Capture(insight_text="Orders are replaced by the mart.", category="correction", entity_urns=[ORDERS]),
    ).insight
    approve(cora, insight_id=insight.pk)
    changes = [{"change_type": "deprecate", "target": MART, "detail": "Use the mart."}]
    result = apply(cora, Apply.read({"insight_ids": [insight.pk.hex], "changes": changes, "entity_urn": ORDERS}))
    assert result.changeset.state == "applied"
    assert status(memory) == (Status.STALE, "sales.orders was deprecated, replaced by sales.mart: Use the mart.")
    assert stale_detection.check_all_entities(50).stale == 0
    assert status(insight.record)[0] == Status.ACTIVE
    rollback.roll_back(cora, changeset_id=result.changeset.pk)
    assert stale_detection.check_all_entities(50).stale == 0
    assert status(memory)[0] == Status.ACTIVE  # the change that made it stale was rolled back


def test_checking_many_memories_makes_few_requests(gms: Faults, alice: Caller) -> None:
    urns = [ORDERS, REFUNDS, MART]
    MemoryRecord.objects.bulk_create(
        [
            MemoryRecord(
                content=f"Fact number {n}.", created_by=alice.email, persona="sales", entity_urns=[urns[n % 3]]
            )
            for n in range(1200)
        ]
    )
    stale_detection.check_all_entities(2000)
    gms.requests.clear()
    swept = stale_detection.check_all_entities(1200)
    paths = [path for _, path in gms.requests if path.endswith("batchGet")]
    assert swept.checked == 1200
    assert len(paths) <= 3  # one request per 500 memories


def test_entities_that_were_unchecked_longest_come_first(small_catalog: None, alice: Caller) -> None:
    for urn in (ORDERS, REFUNDS, MART):
        about(alice, f"A fact about {urn}.", urn=urn)
    stale_detection.check_all_entities(2)
    assert EntityState.objects.count() == 2
    stale_detection.check_all_entities(1)
    assert EntityState.objects.count() == 3


def test_unchanged_entities_need_few_queries(
    small_catalog: None, alice: Caller, django_assert_max_num_queries: Any
) -> None:
    for n in range(200):
        about(alice, f"Fact number {n} about orders.")
    stale_detection.check_all_entities(50)
    with django_assert_max_num_queries(12):
        assert stale_detection.check_all_entities(50).checked == 200


# -- hints, and other catalogs ------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("text", "has_hint"),
    [
        ("Filter by status before you sum the amounts.", True),
        ("The Status 7 means that it was returned.", True),
        ("The customer.id is the buyer.", False),
        ("The statuses are many.", False),
    ],
)
def test_a_removed_column_named_in_the_text_adds_a_hint(
    small_catalog: None, alice: Caller, text: str, has_hint: bool
) -> None:
    record = about(alice, text)
    schema(column("amount", "NUMBER"), column(V2_COLUMN))
    swept = stale_detection.check_all_entities(50)
    assert (swept.stale, status(record)[0]) == (0, Status.ACTIVE)
    hit = memory_recall(alice, query=text).data["memories"][0]
    assert ("the column status was removed" in hit.get("to_verify", "")) is has_hint
    assert (record in list(stale_review.needs_verification(alice))) is has_hint
    services.verify(alice, Verify(record_id=record.pk))
    assert "to_verify" not in memory_recall(alice, query=text).data["memories"][0]


@pytest.mark.django_db(transaction=True)
def test_loading_metadata_checks_changed_entities_at_once(small_catalog: None, alice: Caller, tmp_path: Path) -> None:
    record = about(alice, "Orders come in with two days of delay.")
    proposal = {
        "entityUrn": ORDERS, "aspectName": "deprecation", "changeType": "UPSERT",
        "aspect": {"json": {"deprecated": True, "note": "gone"}},
    }  # fmt: skip
    file = tmp_path / "more.json"
    file.write_text(json.dumps([proposal]))
    call_command("load_catalog", str(file), verbosity=0)
    assert status(record)[0] == Status.STALE


def test_entities_missing_in_another_catalog_make_nothing_stale(
    small_catalog: None, alice: Caller, settings: Any
) -> None:
    only_here = about(alice, "The mart is built at five in the morning.", urn=MART)
    with datahub(settings):
        for key in [key for key in Handler.store.versions if key[0] == MART]:
            del Handler.store.versions[key]  # the other catalog never had this entity
        assert stale_detection.check_all_entities(50).stale == 0
        assert stale_detection.check_entities([MART]).stale == 0
    assert status(only_here)[0] == Status.ACTIVE


@pytest.mark.django_db(transaction=True)
def test_a_baseline_is_taken_when_a_curator_edits_the_entities(
    small_catalog: None, alice: Caller, cora: Caller
) -> None:
    insight = capture(alice, Capture(insight_text="It is replaced by the mart.", category="correction")).insight
    edit(cora, Edit(insight_id=insight.pk, entity_urns=[ORDERS]))
    assert list(EntityBaseline.objects.values_list("urn", flat=True)) == [ORDERS]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("action", ["verify", "forget", "supersede"])
def test_curators_decide_stale_memories_of_their_personas(
    small_catalog: None, alice: Caller, cora: Caller, olga: Caller, action: str
) -> None:
    record = about(alice, "Amounts are gross of tax.", "amount")
    decisions: dict[str, Callable[[Caller], Any]] = {
        "verify": lambda caller: services.verify(caller, Verify(record_id=record.pk)),
        "forget": lambda caller: services.forget(caller, Forget(record_id=record.pk)),
        "supersede": lambda caller: services.supersede(
            caller, Supersede(record_id=record.pk, content="Amounts are on the order lines.")
        ),
    }
    if action != "verify":
        with pytest.raises(Forbidden):
            decisions[action](cora)  # not while the memory is active
    schema(column("status"))
    stale_detection.check_all_entities(50)
    outsider = replace(cora, email="otto@example.org", personas=frozenset({"supply"}))
    with pytest.raises((Forbidden, NotFound)):
        decisions[action](outsider)
    decisions[action](cora)
    assert status(record)[0] != Status.STALE


def test_only_its_owner_verifies_a_private_stale_memory(small_catalog: None, alice: Caller, cora: Caller) -> None:
    record = about(alice, "Amounts are gross of tax.", "amount")
    services.share(alice, Share(record_id=record.pk, visibility="private"))
    schema(column("status"))
    stale_detection.check_all_entities(50)
    with pytest.raises(NotFound):
        services.verify(cora, Verify.read({"record_id": record.pk}))


# -- lineage ----------------------------------------------------------------------------------------------


def test_graph_recall_follows_the_lineage(small_catalog: None, alice: Caller, olga: Caller) -> None:
    near = about(alice, "The mart is built at five in the morning.", urn=MART)
    far = about(alice, "Refunds are paid on Fridays.", urn=REFUNDS)
    about_orders = about(alice, "Orders come in with two days of delay.")
    response = memory_recall(alice, strategy="graph", entity_urns=[ORDERS], explain=True).data
    assert [memory["id"] for memory in response["memories"]] == [about_orders.pk.hex, near.pk.hex]
    assert [memory["scores"]["entity"] for memory in response["memories"]] == [1.0, 0.5]
    up = memory_recall(alice, strategy="graph", entity_urns=[MART]).data
    assert {memory["id"] for memory in up["memories"]} == {near.pk.hex, far.pk.hex, about_orders.pk.hex}
    assert memory_recall(olga, strategy="graph", entity_urns=[ORDERS]).data["count"] == 0


def test_graph_recall_reports_that_lineage_is_unavailable(gms: Faults, alice: Caller, settings: Any) -> None:
    about_orders = about(alice, "Orders come in with two days of delay.")
    settings.DATAHUB_GMS_URL, settings.DATAHUB_TIMEOUT_S = "http://127.0.0.1:9", 0.3
    DataHubCatalog.configured.cache_clear()
    response = memory_recall(alice, strategy="graph", entity_urns=[ORDERS]).data
    assert [memory["id"] for memory in response["memories"]] == [about_orders.pk.hex]
    assert response["degraded"] is True
    assert "lineage can't be read" in response["note"]


def test_the_lineage_tool_is_bounded(small_catalog: None, alice: Caller) -> None:
    response = catalog_lineage(alice, urn=MART, direction="upstream")
    assert [(node["name"], node["distance"]) for node in response["nodes"]] == [
        ("sales.orders", 1),
        ("sales.refunds", 1),
    ]
    truncated = catalog_lineage(alice, urn=MART, limit=1)
    assert (truncated["count"], truncated["more"]) == (1, True)
    for wrong in ({"hops": 0}, {"hops": 6}, {"direction": "sideways"}, {"limit": 0}):
        with pytest.raises(Invalid):
            catalog_lineage(alice, urn=MART, **wrong)


def test_known_column_lineage_is_returned(small_catalog: None, alice: Caller) -> None:
    fine = {
        "upstreams": ["urn:li:schemaField:(a,x)"],
        "downstreams": ["urn:li:schemaField:(b,y)"],
        "transformOperation": "SUM",
    }
    LocalCatalog().write(Write(MART, "upstreamLineage", ("fineGrainedLineages",), "add", [fine]), WriteRun("x", "x"))
    assert catalog_lineage(alice, urn=MART)["columns"] == [{"from": fine["upstreams"], "to": fine["downstreams"]}]


# -- events -----------------------------------------------------------------------------------------------


def test_an_event_makes_memories_stale_within_seconds(gms: Faults, alice: Caller) -> None:
    record = about(alice, "Orders come in with two days of delay.")
    stale_detection.catch_up([record.pk])
    assert follow_once(wait_s=1).checked == 0  # the first poll only finds the end of the stream
    put(ORDERS, "deprecation", {"deprecated": True, "note": "use the mart", "actor": "urn:li:corpuser:x"})
    threading.Timer(0.3, gms.events.append, [ORDERS]).start()
    swept = follow_once(wait_s=60)  # ends with the first event
    assert (swept.checked, swept.stale) == (1, 1)
    assert status(record)[0] == Status.STALE
    assert CatalogCursor.objects.get().value == "1"


def test_events_are_read_again_if_their_check_failed(gms: Faults, alice: Caller, monkeypatch: Any) -> None:
    record = about(alice, "Orders come in with two days of delay.")
    stale_detection.catch_up([record.pk])
    follow_once(wait_s=1)
    put(ORDERS, "deprecation", {"deprecated": True, "note": "use the mart", "actor": "urn:li:corpuser:x"})
    gms.events.append(ORDERS)
    with monkeypatch.context() as patch:
        away = stale_detection.CheckReport(note="the catalog is away")
        patch.setattr(stale_detection, "check_entities", lambda urns: away)
        follow_once(wait_s=1)
    assert status(record)[0] == Status.ACTIVE
    follow_once(wait_s=1)
    assert status(record)[0] == Status.STALE


def test_events_of_unknown_format_are_ignored() -> None:
    for event in ({}, {"value": "nonsense"}, {"value": "[]"}, {"value": {"payload": {"value": "1"}}}):
        assert _changed_entity(event) == ""


@pytest.mark.django_db(transaction=True)
def test_a_check_does_not_reactivate_a_memory_that_a_person_marked_stale(small_catalog: None, alice: Caller) -> None:
    record = about(alice, "Amounts are gross of tax.", "amount")
    services.mark_stale(alice, record_id=record.pk, reason="the tax rules changed")
    assert stale_detection.check_entities([ORDERS]).fresh == 0
    assert status(record) == (Status.STALE, "the tax rules changed")


@pytest.mark.django_db(transaction=True)
def test_applying_a_changeset_hides_no_earlier_change_by_others(
    small_catalog: None, alice: Caller, cora: Caller
) -> None:
    proposal = {"insight_text": "Orders leave out refunds.", "category": "data_quality", "entity_urns": [ORDERS]}
    insight = capture(alice, Capture.read(proposal)).insight
    approve(cora, insight_id=insight.pk)
    put(ORDERS, "deprecation", {"deprecated": True, "note": "use the mart", "actor": "urn:li:corpuser:x"})
    change = {"change_type": "update_description", "target": "", "detail": "Orders without refunds."}
    apply(cora, Apply.read({"insight_ids": [insight.pk.hex], "changes": [change], "entity_urn": ORDERS}))
    assert status(insight.record) == (Status.STALE, "sales.orders was deprecated: use the mart")
