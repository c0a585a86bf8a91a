"""Applying and rolling back: every change type in both catalogs, and everything that can go wrong on the way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from knowledge import catalog as catalogs
from knowledge import changesets
from knowledge.catalog.files import as_proposals
from knowledge.catalog.local import LocalCatalog
from knowledge.catalog.patch import canonical, value_at
from knowledge.catalog.port import CatalogPort, Run, Write
from knowledge.change_types import CHANGE_TYPES
from knowledge.insights import approve, capture, reject
from knowledge.models import CatalogAspect, Changeset, ChangesetState, Insight, InsightState
from memories import services
from memories.access import Caller
from memories.errors import Conflict, Forbidden, Invalid, NotFound
from memories.models import MemoryRecord, Status
from tests.gms import Faults
from tests.knowledge.conftest import ORDERS, V2_COLUMN

pytestmark = pytest.mark.django_db(transaction=True)
TAG = "urn:li:tag:Training"
COUNT = iter(range(10_000))


def approved(owner: Caller, curator: Caller, **fields: Any) -> Insight:
    text = f"An insight about orders, number {next(COUNT)}."
    insight = capture(caller=owner, insight_text=text, category="data_quality", entity_urns=[ORDERS], **fields).insight
    return approve(caller=curator, insight_id=insight.pk)


def change(kind: str, target: str = "", detail: str = "", **more: str) -> dict[str, str]:
    return {"change_type": kind, "target": target, "detail": detail, **more}


def apply(owner: Caller, curator: Caller, *changes: dict[str, str], urn: str = ORDERS) -> changesets.Applied:
    insight = approved(owner, curator)
    return changesets.apply(caller=curator, insight_ids=[insight.pk.hex], changes=list(changes), entity_urn=urn)


def snapshot() -> str:
    """All that the catalog says now: soft-deleted entities left out, lists in one order, as their order means
    nothing, and columns of which nothing is said any more."""
    newest = CatalogAspect.objects.filter(is_latest=True, value__isnull=False)
    removed = {row.urn for row in newest if row.aspect == "status" and row.value == {"removed": True}}
    removed |= {
        r.urn for r in newest if r.aspect == "incidentInfo" and (r.value or {})["status"]["state"] == "RESOLVED"
    }
    rows = {f"{r.urn} {r.aspect}": r.value for r in newest if r.urn not in removed and r.value}
    said = {name: settled(value) for name, value in rows.items()}
    return canonical({name: value for name, value in said.items() if any(value.values())})


def settled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: settled(inner) for key, inner in value.items()}
    if isinstance(value, list):
        kept = [settled(item) for item in value if not (isinstance(item, dict) and is_bare(item))]
        return sorted(kept, key=canonical)
    return value


def is_bare(item: dict[str, Any]) -> bool:
    """A column's entry without anything but its key and emptied lists."""
    said = [inner for key, inner in item.items() if key != "fieldPath"]
    return "fieldPath" in item and not any(any(inner.values()) if isinstance(inner, dict) else inner for inner in said)


# -- every change type, there and back ------------------------------------------------------------------------

CASES: dict[str, dict[str, str]] = {
    "update_description": change("update_description", detail="Orders after payment."),
    "update_description of a column": change("update_description", "column:amount", "With tax."),
    "update_description of a v2 column": change("update_description", "column:customer.id", "The buyer."),
    "add_tag": change("add_tag", detail="Training"),
    "add_tag to a column": change("add_tag", "column:status", TAG),
    "remove_tag": change("remove_tag", detail="Old"),
    "add_glossary_term": change("add_glossary_term", detail="urn:li:glossaryTerm:net"),
    "remove_glossary_term": change("remove_glossary_term", detail="old"),
    "create_glossary_term": change("create_glossary_term", "Gross revenue", "Before refunds."),
    "flag_quality_issue": change("flag_quality_issue", detail="Late on Mondays."),
    "add_documentation": change("add_documentation", "https://wiki.example/orders", "Handbook"),
    "add_context_document": change("add_context_document", "Two selling seasons", "We have two selling seasons."),
    "update_context_document": change(
        "update_context_document", "urn:li:document:old", "New text.", query_sql="New title"
    ),
    "remove_context_document": change("remove_context_document", "urn:li:document:old"),
    "deprecate": change("deprecate", detail="Use the mart."),
    "set_domain": change("set_domain", detail="sales"),
    "add_owner": change("add_owner", "DATA_STEWARD", "cora@example.org"),
    "remove_owner": change("remove_owner", "TECHNICAL_OWNER", "maya@example.org"),
}


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


CASES |= {
    "set_structured_property": change("set_structured_property", "retention", "[90, 180]"),
    "remove_structured_property": change("remove_structured_property", "owner.team"),
    "raise_incident": change("raise_incident", "Late again", "The load of Monday is late."),
    "resolve_incident": change("resolve_incident", "urn:li:incident:old", "The load was repeated."),
    "add_curated_query": change("add_curated_query", detail="Net orders", query_sql="SELECT 1"),
    "add_prompt": change("add_prompt", "monday-review", "Compare last week with the week before."),
}


def test_every_change_type_has_a_case() -> None:
    assert {case["change_type"] for case in CASES.values()} == set(CHANGE_TYPES)


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_applied_and_taken_back(name: str, lived_in: CatalogPort, alice: Caller, cora: Caller) -> None:
    before = snapshot()
    done = apply(alice, cora, CASES[name])
    assert done.changeset.state == ChangesetState.APPLIED, done.changeset.error
    assert done.changeset.catalog == lived_in.name
    after = snapshot()
    assert after != before
    for one in done.changes:
        now = value_at(one.aspect, lived_in.read([one.urn], [one.aspect])[one.urn][one.aspect].value, one.path)
        assert (one.operation == "remove") or canonical(now) == canonical(one.written)
    back = changesets.roll_back(caller=cora, changeset_id=done.changeset.pk)
    assert (back.changeset.state, back.conflicts) == (ChangesetState.ROLLED_BACK, [])
    assert snapshot() == before


def test_several_changes_of_one_path_go_back_to_the_first_state(
    lived_in: CatalogPort, alice: Caller, cora: Caller
) -> None:
    before = snapshot()
    texts = [change("update_description", detail=f"Version {n}.") for n in range(3)]
    done = apply(alice, cora, *texts, change("add_tag", detail="New"), change("remove_tag", detail="New"))
    assert done.changeset.state == ChangesetState.APPLIED
    changesets.roll_back(caller=cora, changeset_id=done.changeset.pk)
    assert snapshot() == before


# -- what it means for insights --------------------------------------------------------------------------------


def test_from_capture_to_roll_back(small_catalog: None, alice: Caller, olga: Caller, cora: Caller) -> None:
    old = services.remember(caller=alice, content="Training stores are 9001 to 9050.").record
    insight = approved(alice, cora, supersedes=old.pk.hex)
    done = changesets.apply(
        caller=cora, insight_ids=[insight.pk.hex], changes=[change("add_tag", detail="Training")], entity_urn=ORDERS
    )
    insight.refresh_from_db()
    old.refresh_from_db()
    assert (insight.state, insight.applied_by, insight.changeset) == (InsightState.APPLIED, cora.email, done.changeset)
    assert (old.status, old.superseded_by) == (Status.SUPERSEDED, insight.pk)
    assert MemoryRecord.objects.visible_to(olga).get().pk == insight.pk
    back = changesets.roll_back(caller=cora, changeset_id=done.changeset.pk)
    insight = Insight.objects.select_related("record").get()
    old.refresh_from_db()
    assert back.insights_returned == 1
    assert (insight.state, insight.record.visibility, insight.record.supersedes) == (
        InsightState.PENDING,
        "private",
        None,
    )
    assert (old.status, old.superseded_by) == (Status.ACTIVE, None)


def test_only_approved_insights_are_applied(small_catalog: None, alice: Caller, cora: Caller) -> None:
    pending = capture(caller=alice, insight_text="This one still waits.", category="correction").insight
    rejected = capture(caller=alice, insight_text="This one was refused.", category="correction").insight
    reject(caller=cora, insight_id=rejected.pk)
    for insight in (pending, rejected):
        with pytest.raises(Conflict, match="only approved"):
            changesets.apply(caller=cora, insight_ids=[insight.pk.hex], changes=[CASES["add_tag"]], entity_urn=ORDERS)
    with pytest.raises(Invalid, match="insight_ids"):
        changesets.apply(caller=cora, insight_ids=[], changes=[CASES["add_tag"]], entity_urn=ORDERS)
    assert not Changeset.objects.exists()


def test_applying_twice_is_refused(small_catalog: None, alice: Caller, cora: Caller) -> None:
    done = apply(alice, cora, CASES["add_tag"])
    with pytest.raises(Conflict):
        changesets.apply(
            caller=cora, insight_ids=done.changeset.insight_ids, changes=[CASES["add_tag"]], entity_urn=ORDERS
        )
    with pytest.raises(Conflict):
        changesets.resume(caller=cora, changeset_id=done.changeset.pk)
    changesets.roll_back(caller=cora, changeset_id=done.changeset.pk)
    with pytest.raises(Conflict, match="rolled back already"):
        changesets.roll_back(caller=cora, changeset_id=done.changeset.pk)


def test_analysts_apply_nothing_and_outsiders_find_nothing(
    small_catalog: None, alice: Caller, olga: Caller, cora: Caller
) -> None:
    insight = approved(alice, cora)
    with pytest.raises(Forbidden):
        changesets.apply(caller=alice, insight_ids=[insight.pk.hex], changes=[CASES["add_tag"]], entity_urn=ORDERS)
    done = changesets.apply(caller=cora, insight_ids=[insight.pk.hex], changes=[CASES["add_tag"]], entity_urn=ORDERS)
    with pytest.raises(Forbidden):
        changesets.roll_back(caller=alice, changeset_id=done.changeset.pk)
    with pytest.raises(NotFound):
        changesets.find(olga, done.changeset.pk)


# -- all or nothing before anything is sent -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (change("update_description", "column:nowhere", "x"), Invalid, "amount, status, customer.id"),
        (change("update_description"), Invalid, "detail"),
        (change("fly"), Invalid, "update_description"),
        (change("add_documentation", "javascript:alert(1)", "x"), Invalid, "https://"),
        (change("add_owner", "KING", "a@example.org"), Invalid, "TECHNICAL_OWNER"),
        (change("add_owner", "", "nobody"), Invalid, "e-mail"),
        (change("create_glossary_term", "Net revenue", "again"), Conflict, "urn:li:glossaryTerm:net"),
        (change("update_context_document", "nowhere", "x"), NotFound, "nowhere"),
        (change("deprecate", "nonsense", "x"), Invalid, "target"),
    ],
)
def test_one_wrong_change_stops_all(
    small_catalog: None, alice: Caller, cora: Caller, wrong: dict[str, str], error: type[Exception], said: str
) -> None:
    before = snapshot()
    with pytest.raises(error) as refused:
        apply(alice, cora, CASES["add_tag"], wrong)
    assert said in str(refused.value)
    assert snapshot() == before
    assert not Changeset.objects.exists()


def test_changes_have_to_suit_the_entity(small_catalog: None, alice: Caller, cora: Caller) -> None:
    with pytest.raises(Invalid, match="does not suit a glossaryTerm"):
        apply(alice, cora, CASES["add_tag"], urn="urn:li:glossaryTerm:net")
    with pytest.raises(NotFound, match="not in the catalog"):
        apply(alice, cora, CASES["add_tag"], urn=ORDERS.replace("orders", "nowhere"))
    LocalCatalog().put(ORDERS, "status", {"removed": True}, {})
    with pytest.raises(NotFound, match="was removed"):
        apply(alice, cora, CASES["add_tag"])


def test_a_preview_writes_nothing_and_tells_absent_from_empty(small_catalog: None, alice: Caller, cora: Caller) -> None:
    before = snapshot()
    LocalCatalog().put(ORDERS, "editableDatasetProperties", {"description": ""}, {})
    insight = approved(alice, cora)
    shown = changesets.preview(
        caller=cora,
        insight_ids=[insight.pk.hex],
        changes=[CASES["update_description"], CASES["add_tag"]],
        entity_urn=ORDERS,
    )
    from knowledge.shapes import planned_shape

    description, tag = [planned_shape(one) for one in shown.planned]
    assert (description["before"], description["was_absent"]) == ("", False)
    assert (tag["before"], tag["was_absent"]) == (None, True)
    assert snapshot() == before
    assert not Changeset.objects.exists()


def test_what_is_there_already_is_recorded_and_never_taken_back(
    small_catalog: None, alice: Caller, cora: Caller
) -> None:
    LocalCatalog().write(Write(ORDERS, "globalTags", ("tags", TAG), "add", {"tag": TAG}), Run("x", "x"))
    done = apply(alice, cora, CASES["add_tag"])
    assert [one.outcome for one in done.changes] == ["noop"]
    changesets.roll_back(caller=cora, changeset_id=done.changeset.pk)
    assert TAG in snapshot()


# -- others write too ----------------------------------------------------------------------------------------


def test_roll_back_stops_where_others_have_changed_the_value(
    lived_in: CatalogPort, alice: Caller, cora: Caller
) -> None:
    done = apply(alice, cora, CASES["update_description"], CASES["add_tag"])
    lived_in.write(Write(ORDERS, "editableDatasetProperties", ("description",), "add", "Mine now."), Run("ui", "x"))
    shown = changesets.roll_back_preview(caller=cora, changeset_id=done.changeset.pk)
    assert {change.aspect: ours for change, ours in shown} == {"globalTags": True, "editableDatasetProperties": False}
    with pytest.raises(Conflict, match="description"):
        changesets.roll_back(caller=cora, changeset_id=done.changeset.pk)
    assert TAG in snapshot()
    back = changesets.roll_back(caller=cora, changeset_id=done.changeset.pk, skip_conflicts=True)
    assert [one.aspect for one in back.conflicts] == ["editableDatasetProperties"]
    assert TAG not in snapshot()
    assert "Mine now." in snapshot()


def test_other_elements_written_since_are_kept_by_a_roll_back(
    lived_in: CatalogPort, alice: Caller, cora: Caller
) -> None:
    done = apply(alice, cora, CASES["add_tag"])
    lived_in.write(
        Write(ORDERS, "globalTags", ("tags", "urn:li:tag:ui"), "add", {"tag": "urn:li:tag:ui"}), Run("ui", "x")
    )
    changesets.roll_back(caller=cora, changeset_id=done.changeset.pk)
    assert "urn:li:tag:ui" in snapshot()
    assert TAG not in snapshot()


def together(count: int, act: Callable[[int], Any]) -> list[Any]:
    barrier, results = threading.Barrier(count), [None] * count

    def run(n: int) -> None:
        barrier.wait()
        try:
            results[n] = act(n)
        except Exception as error:
            results[n] = error  # type: ignore[call-overload]
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[n]) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_two_curators_at_once_one_wins_and_the_other_is_told(
    small_catalog: None, alice: Caller, ada: Caller, cora: Caller
) -> None:
    insight = approved(alice, cora)
    curators = [cora, ada]
    results = together(
        2,
        lambda n: changesets.apply(
            caller=curators[n], insight_ids=[insight.pk.hex], changes=[CASES["add_tag"]], entity_urn=ORDERS
        ),
    )
    assert sorted(type(result).__name__ for result in results) == ["Applied", "Conflict"]
    assert Changeset.objects.count() == 1


def test_twenty_applies_at_once_on_one_entity_lose_nothing(
    either_catalog: CatalogPort, alice: Caller, cora: Caller
) -> None:
    bound = [approved(alice, cora) for _ in range(20)]
    results = together(
        20,
        lambda n: changesets.apply(
            caller=cora,
            insight_ids=[bound[n].pk.hex],
            changes=[change("add_tag", detail=f"t{n}"), change("add_owner", "DATA_STEWARD", f"p{n}@example.org")],
            entity_urn=ORDERS,
        ),
    )
    assert [type(result).__name__ for result in results] == ["Applied"] * 20
    assert {result.changeset.state for result in results} == {ChangesetState.APPLIED}
    read = catalogs.current().read([ORDERS], ["globalTags", "ownership"])[ORDERS]
    assert len((read["globalTags"].value or {})["tags"]) == 20
    assert len((read["ownership"].value or {})["owners"]) == 21


# -- a catalog that fails half-way -----------------------------------------------------------------------------


THREE = [CASES["add_tag"], CASES["update_description"], CASES["add_documentation"]]


def test_a_failure_half_way_is_partial_and_resumed(gms: Faults, alice: Caller, cora: Caller) -> None:
    gms.after_writes, gms.write_status, gms.write_status_times = 1, 503, 50
    done = apply(alice, cora, *THREE)
    assert done.changeset.state == ChangesetState.PARTIAL
    assert [one.outcome for one in done.changes] == ["landed", "planned", "planned"]
    assert "503" in done.changeset.error
    assert Insight.objects.get().state == InsightState.APPROVED
    gms.write_status_times = 0
    resumed = changesets.resume(caller=cora, changeset_id=done.changeset.pk)
    assert resumed.changeset.state == ChangesetState.APPLIED
    assert [one.outcome for one in resumed.changes] == ["landed"] * 3
    assert Insight.objects.get().state == InsightState.APPLIED


def test_a_partial_changeset_can_be_taken_back(gms: Faults, alice: Caller, cora: Caller) -> None:
    before = snapshot()
    gms.after_writes, gms.write_status, gms.write_status_times = 2, 503, 50
    done = apply(alice, cora, *THREE)
    gms.write_status_times = 0
    changesets.roll_back(caller=cora, changeset_id=done.changeset.pk)
    assert snapshot() == before
    assert Insight.objects.get().state == InsightState.PENDING


def test_nothing_landed_frees_the_insights(gms: Faults, alice: Caller, cora: Caller) -> None:
    gms.write_status, gms.write_status_times = 400, 50
    done = apply(alice, cora, *THREE)
    assert done.changeset.state == ChangesetState.FAILED
    insight = Insight.objects.get()
    assert (insight.state, insight.changeset) == (InsightState.APPROVED, None)


def test_a_write_whose_answer_was_lost_is_read_and_not_repeated(gms: Faults, alice: Caller, cora: Caller) -> None:
    gms.drop_after_write = 2  # the SDK's own second try included
    done = apply(alice, cora, CASES["add_tag"])
    assert done.changeset.state == ChangesetState.APPLIED
    assert CatalogAspect.objects.filter(urn=ORDERS, aspect="globalTags").count() == 1


def test_a_catalog_whose_reads_lag_is_waited_for(gms: Faults, alice: Caller, cora: Caller) -> None:
    gms.lagging_reads = 2
    assert apply(alice, cora, CASES["add_tag"]).changeset.state == ChangesetState.APPLIED
    gms.proposals.clear()
    gms.lagging_reads = 50
    done = apply(alice, cora, CASES["flag_quality_issue"])
    assert done.changeset.state == ChangesetState.PARTIAL
    gms.lagging_reads = 0
    assert changesets.resume(caller=cora, changeset_id=done.changeset.pk).changeset.state == ChangesetState.APPLIED


@pytest.mark.parametrize("status", [412, 429])
def test_a_catalog_that_is_overtaken_or_busy_is_asked_again(
    gms: Faults, alice: Caller, cora: Caller, status: int
) -> None:
    gms.write_status, gms.write_status_times = status, 1
    done = apply(alice, cora, CASES["set_domain"])
    if done.changeset.state != ChangesetState.APPLIED:
        assert done.changeset.state == ChangesetState.FAILED
        done = changesets.apply(
            caller=cora, insight_ids=done.changeset.insight_ids, changes=[CASES["set_domain"]], entity_urn=ORDERS
        )
    assert done.changeset.state == ChangesetState.APPLIED


def test_a_kill_between_intent_and_answer_is_resumed(
    gms: Faults, alice: Caller, cora: Caller, monkeypatch: Any
) -> None:
    def killed(*args: Any) -> None:
        raise KeyboardInterrupt

    insight = approved(alice, cora)
    with monkeypatch.context() as patch:
        patch.setattr("knowledge.catalog.datahub.DataHubCatalog.write", killed)
        with pytest.raises(KeyboardInterrupt):
            changesets.apply(caller=cora, insight_ids=[insight.pk.hex], changes=THREE, entity_urn=ORDERS)
    changeset = Changeset.objects.get()
    assert changeset.state == ChangesetState.PLANNED
    assert [one.outcome for one in changeset.changes.all()] == ["sending", "planned", "planned"]
    # Whatever the killed process had achieved: here, its first write was under way and landed.
    catalogs.current().write(Write(ORDERS, "globalTags", ("tags", TAG), "add", {"tag": TAG}), Run("cs", "x"))
    resumed = changesets.resume(caller=cora, changeset_id=changeset.pk)
    assert resumed.changeset.state == ChangesetState.APPLIED
    assert [one.outcome for one in resumed.changes] == ["landed"] * 3


def test_a_changeset_is_exported_as_proposals_and_replayed(
    small_catalog: None, alice: Caller, cora: Caller, tmp_path: Any
) -> None:
    import json

    from django.core.management import call_command

    done = apply(alice, cora, CASES["add_tag"], CASES["set_domain"], CASES["deprecate"])
    after = snapshot()
    exported = as_proposals(done.changes)
    assert [one["changeType"] for one in exported] == ["PATCH", "PATCH", "UPSERT"]
    changesets.roll_back(caller=cora, changeset_id=done.changeset.pk)
    (tmp_path / "cs.json").write_text(json.dumps(exported))
    call_command("load_catalog", str(tmp_path / "cs.json"), verbosity=0)
    assert snapshot() == after


def test_replaying_through_the_adapter_writes_only_what_is_missing(
    lived_in: CatalogPort, alice: Caller, cora: Caller
) -> None:
    done = apply(alice, cora, CASES["add_tag"], CASES["set_domain"])
    after = snapshot()
    assert changesets.replay(caller=cora, changeset_id=done.changeset.pk) == (0, 2)
    lived_in.write(Write(ORDERS, "globalTags", ("tags", TAG), "remove"), Run("ui", "x"))
    assert changesets.replay(caller=cora, changeset_id=done.changeset.pk) == (1, 1)
    assert snapshot() == after
    assert V2_COLUMN in snapshot()
