"""The embedded catalog: bulk loading, lineage through jobs and dashboards, and pages of columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foundation.operations.errors import Invalid, NotFound
from foundation.people.caller import Caller
from knowledge.catalog import metadata_files
from knowledge.catalog.embedded import LocalCatalog
from knowledge.freshness import catalog_load, stale_detection
from knowledge.mcp_tools.capture import capture_insight
from knowledge.mcp_tools.catalog import catalog_entity, catalog_lineage, catalog_search
from knowledge.models import CatalogAspect
from memories import services
from memories.models import MemoryRecord
from memories.operations import RecallMemories, Remember
from memories.retrieval.recall import recall
from tests.knowledge.changeset_examples import apply, change
from tests.knowledge.conftest import MART, ORDERS, REFUNDS, column, put, schema_of

pytestmark = pytest.mark.django_db
JOB = "urn:li:dataJob:(urn:li:dataFlow:(airflow,nightly,PROD),load)"
CHART, DASHBOARD = "urn:li:chart:(looker,revenue)", "urn:li:dashboard:(looker,board)"


def record(urn: str, aspect: str, value: Any) -> dict[str, Any]:
    return {"entityUrn": urn, "aspectName": aspect, "changeType": "UPSERT", "aspect": {"json": value}}


def table(number: int) -> str:
    return f"urn:li:dataset:(urn:li:dataPlatform:snowflake,bulk.t{number},PROD)"


def load(*records: dict[str, Any]) -> metadata_files.Loaded:
    *_, count = catalog_load.load(records)
    return count


def test_loading_takes_few_statements_per_chunk(db: None) -> None:
    rows = [
        record(table(n), "datasetProperties", {"name": f"bulk.t{n}", "description": f"Table {n}"}) for n in range(400)
    ]
    with CaptureQueriesContext(
        connection,
    ) as statements:
        count = load(*rows)
    assert (count.writes, len(count.urns)) == (400, 400)
    assert len(statements) < 60  # two chunks; written one by one, each aspect would take six statements
    again = load(*rows)
    assert (again.writes, again.unchanged) == (0, 400)
    assert CatalogAspect.objects.filter(aspect="datasetProperties", is_latest=True).count() == 400


def test_several_versions_in_one_chunk_leave_one_latest(db: None) -> None:
    load(*(record(table(1), "datasetProperties", {"name": "t", "description": f"Version {n}"}) for n in (1, 2, 3)))
    rows = CatalogAspect.objects.filter(urn=table(1)).order_by("version")
    assert [(row.version, row.is_latest) for row in rows] == [(1, False), (2, False), (3, True)]
    assert LocalCatalog().read([table(1)], ["datasetProperties"])[table(1)]["datasetProperties"].value == {
        "name": "t",
        "description": "Version 3",
    }


def nodes(caller: Caller, urn: str, **options: Any) -> set[tuple[str, str, int]]:
    response = catalog_lineage(caller, urn=urn, **options)
    return {(node["urn"], node["direction"], node["distance"]) for node in response["nodes"]}


def test_lineage_follows_jobs_charts_and_dashboards(small_catalog: None, alice: Caller) -> None:
    fine = {
        "upstreams": [f"urn:li:schemaField:({REFUNDS},refund_id)"],
        "downstreams": [f"urn:li:schemaField:({table(9)},x)"],
    }
    load(
        record(table(9), "datasetProperties", {"name": "t9"}),
        record(
            JOB, "dataJobInputOutput", {"inputDatasets": [ORDERS], "outputDatasets": [table(9)], "inputDatajobs": []}
        ),
        record(CHART, "chartInfo", {"title": "Revenue", "inputs": [{"string": table(9)}]}),
        record(DASHBOARD, "dashboardInfo", {"title": "Board", "charts": [CHART]}),
        record(table(9), "upstreamLineage", {"upstreams": [], "fineGrainedLineages": [fine]}),
    )
    down = nodes(alice, ORDERS, direction="downstream", hops=4)
    assert {
        (JOB, "downstream", 1),
        (table(9), "downstream", 2),
        (CHART, "downstream", 3),
        (DASHBOARD, "downstream", 4),
    } <= down
    assert (REFUNDS, "upstream", 1) in nodes(alice, table(9), direction="upstream")
    with pytest.raises(NotFound, match="is not in the catalog"):
        catalog_lineage(alice, urn=table(77))


def test_an_entity_is_complete_and_its_columns_are_paged(small_catalog: None, alice: Caller) -> None:
    load(
        record(table(1), "schemaMetadata", schema_of("t1", [column(f"c{n:03d}") for n in range(120)])),
        record(table(1), "domains", {"domains": ["urn:li:domain:sales"]}),
        record("urn:li:domain:sales", "domainProperties", {"name": "Sales"}),
        record(
            table(1),
            "structuredProperties",
            {"properties": [{"propertyUrn": "urn:li:structuredProperty:pii", "values": [{"string": "none"}]}]},
        ),
        record(
            "urn:li:dataProduct:books",
            "dataProductProperties",
            {"name": "The books", "assets": [{"destinationUrn": table(1)}]},
        ),
    )
    first = catalog_entity(alice, urn=table(1)).data["entity"]
    assert (len(first["columns"]), first["columns_total"], first["columns_left"]) == (50, 120, 70)
    last = catalog_entity(alice, urn=table(1), columns_from=100, columns_limit=50).data["entity"]
    assert [row["column"] for row in last["columns"]] == [f"c{n:03d}" for n in range(100, 120)]
    assert "columns_left" not in last
    assert first["names"]["urn:li:domain:sales"] == "Sales"
    assert first["names"][first["products"][0]] == "The books"
    assert "none" in str(first["structured_properties"])


def test_documents_are_found_and_unknown_types_are_rejected(small_catalog: None, alice: Caller) -> None:
    text = {
        "title": "Closing",
        "contents": {"text": "The books of Ghent close on the third."},
        "status": {"state": "PUBLISHED"},
    }
    load(record("urn:li:document:closing", "documentInfo", text))
    assert [entity["urn"] for entity in catalog_search(alice, query="books of Ghent")["entities"]] == [
        "urn:li:document:closing"
    ]
    assert "Ghent" in str(catalog_entity(alice, urn="urn:li:document:closing").data["entity"])
    with pytest.raises(Invalid, match="types"):
        catalog_search(alice, query="orders", types=["datasett"])


def test_a_structured_property_can_be_defined_and_set(small_catalog: None, alice: Caller, cora: Caller) -> None:
    apply(alice, cora, change("define_structured_property", "retention", "How long rows are kept."))
    apply(alice, cora, change("set_structured_property", "retention", "90 days"))
    assert "90 days" in str(catalog_entity(alice, urn=ORDERS).data["entity"]["structured_properties"])


# -- staleness and suggestions -------------------------------------------------------------------------------


def test_loading_checks_memories_about_changed_entities(small_catalog: None, alice: Caller) -> None:
    by_column = services.remember(
        alice,
        Remember(
            content="Amounts are with tax.",
            entity_urns=[ORDERS],
            related_columns=[{"urn": ORDERS, "column": "amount", "relevance": "measured"}],
        ),
    ).record
    by_text = services.remember(
        alice, Remember(content="The status of orders is set at night.", entity_urns=[ORDERS])
    ).record
    stale_detection.check_all_entities(100)
    count = load(record(ORDERS, "schemaMetadata", schema_of("sales.orders", [column("total", "NUMBER")])))
    assert count.stale == 1
    assert MemoryRecord.objects.get(pk=by_column.pk).status == "stale"
    assert MemoryRecord.objects.get(pk=by_text.pk).status == "active"
    (hit,) = [
        hit for hit in recall(alice, RecallMemories(query="status of orders")).hits if hit.record.pk == by_text.pk
    ]
    assert "status" in recall(alice, RecallMemories(query="status of orders")).hints[hit.record.pk]


def test_baselines_of_another_catalog_make_nothing_stale(
    small_catalog: None, alice: Caller, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Baselines of one catalog are not compared with another, where the same tables may not exist."""

    memory = services.remember(alice, Remember(content="Amounts are with tax.", entity_urns=[ORDERS])).record
    stale_detection.check_all_entities(100)
    monkeypatch.setattr("knowledge.freshness.stale_detection.identity", lambda: "datahub http://elsewhere")
    CatalogAspect.objects.all().delete()
    put(MART, "datasetProperties", {"name": "mart"})
    assert stale_detection.check_all_entities(100).stale == 0
    assert MemoryRecord.objects.get(pk=memory.pk).status == "active"


def test_applying_a_deprecation_makes_other_memories_stale(
    small_catalog: None, alice: Caller, bob: Caller, cora: Caller
) -> None:
    """The applied insight itself stays active."""
    other_memory = services.remember(bob, Remember(content="Orders are loaded at night.", entity_urns=[ORDERS])).record
    stale_detection.check_all_entities(100)
    applied = apply(alice, cora, change("deprecate", "", "use the mart"))
    own_memory = MemoryRecord.objects.get(pk=applied.changeset.insight_ids[0])
    other_memory.refresh_from_db()
    assert (own_memory.status, other_memory.status) == ("active", "stale")
    assert "use the mart" in other_memory.stale_reason


def test_capture_reports_suggestions_that_cannot_be_applied(small_catalog: None, alice: Caller) -> None:
    arguments: dict[str, Any] = {
        "insight_text": "The column amout is in cents.",
        "category": "data_quality",
        "entity_urns": [ORDERS],
    }
    typo = {"action_type": "update_description", "target": "column:amout", "detail": "In cents."}
    assert "amout" in str(capture_insight(alice, **arguments, suggested_actions=[typo]).get("problems"))
    query = {"action_type": "add_curated_query", "target": "", "detail": "Totals"}
    with pytest.raises(Invalid, match="query_sql: is missing"):
        capture_insight(alice, **arguments, suggested_actions=[query])


# -- patches and records in other forms ------------------------------------------------------------------------

UPSTREAM = "urn:li:dataset:(urn:li:dataPlatform:snowflake,bulk.upstream,PROD)"


def patch(urn: str, aspect: str, *operations: dict[str, Any]) -> dict[str, Any]:
    return {"entityUrn": urn, "aspectName": aspect, "changeType": "PATCH", "aspect": {"json": list(operations)}}


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def stored(urn: str, aspect: str) -> Any:
    row = CatalogAspect.objects.filter(urn=urn, aspect=aspect, is_latest=True).first()
    return row and row.value


@pytest.mark.parametrize(
    ("aspect", "field", "key", "value"),
    [
        ("upstreamLineage", "upstreams", UPSTREAM, {"dataset": UPSTREAM, "type": "TRANSFORMED"}),
        ("dataJobInputOutput", "inputDatajobEdges", JOB, {"destinationUrn": JOB}),
        ("dataJobInputOutput", "inputDatasetEdges", UPSTREAM, {"destinationUrn": UPSTREAM}),
        ("dataJobInputOutput", "outputDatasetEdges", UPSTREAM, {"destinationUrn": UPSTREAM}),
        ("dataJobInputOutput", "inputDatasetFields", f"{UPSTREAM},a", f"{UPSTREAM},a"),
        ("dashboardInfo", "chartEdges", CHART, {"destinationUrn": CHART}),
        ("dashboardInfo", "datasetEdges", UPSTREAM, {"destinationUrn": UPSTREAM}),
        ("dashboardInfo", "charts", CHART, CHART),
        ("chartInfo", "inputEdges", UPSTREAM, {"destinationUrn": UPSTREAM}),
        ("domains", "domains", "urn:li:domain:sales", "urn:li:domain:sales"),
        ("siblings", "siblings", UPSTREAM, UPSTREAM),
        ("dataProductProperties", "assets", UPSTREAM, {"destinationUrn": UPSTREAM}),
        ("schemaMetadata", "fields", "amount", {"fieldPath": "amount", "nativeDataType": "int"}),
        ("globalTags", "tags", "urn:li:tag:PII", {"tag": "urn:li:tag:PII"}),
    ],
)
def test_lists_are_patched_by_key(aspect: str, field: str, key: str, value: Any) -> None:
    urn = table(1)
    encoded = key.replace("~", "~0").replace("/", "~1")
    count = load(patch(urn, aspect, add(f"/{field}/{encoded}", value), add(f"/{field}/{encoded}", value)))
    assert not count.skipped
    assert stored(urn, aspect)[field] == [value]
    other = {**value, next(iter(value)): f"{key}x"} if isinstance(value, dict) else f"{key}x"
    load(
        patch(
            urn,
            aspect,
            add(f"/{field}/{encoded}x", other),
            {"op": "replace", "path": f"/{field}/{encoded}", "value": value},
        )
    )
    assert stored(urn, aspect)[field] == [value, other]
    load(patch(urn, aspect, {"op": "remove", "path": f"/{field}/{encoded}"}))
    assert stored(urn, aspect)[field] == [other]
    load(patch(urn, aspect, add(f"/{field}", [value])))
    assert stored(urn, aspect)[field] == [value]


def test_lineage_of_columns_is_patched_by_operation_downstream_query_and_upstream() -> None:
    urn, path = table(1), "/fineGrainedLineages/TRANSFORM/urn:li:schemaField:(b,x)/NONE"
    count = load(
        patch(
            urn, "upstreamLineage",
            add(f"{path}/urn:li:schemaField:(a,x)", {"confidenceScore": 1.0}),
            add(f"{path}/urn:li:schemaField:(a,y)", {"confidenceScore": 0.5}),
        )
    )  # fmt: skip
    assert not count.skipped
    (element,) = stored(urn, "upstreamLineage")["fineGrainedLineages"]
    assert (element["upstreams"], element["downstreams"], element["confidenceScore"]) == (
        ["urn:li:schemaField:(a,x)", "urn:li:schemaField:(a,y)"], ["urn:li:schemaField:(b,x)"], 0.5,
    )  # fmt: skip
    load(patch(urn, "upstreamLineage", {"op": "remove", "path": f"{path}/urn:li:schemaField:(a,x)"}))
    (element,) = stored(urn, "upstreamLineage")["fineGrainedLineages"]
    assert element["upstreams"] == ["urn:li:schemaField:(a,y)"]


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_a_text_about_the_null_character_is_no_null_character() -> None:
    text = r"strip \u0000 from text"
    load(record(table(1), "datasetProperties", {"description": text}))
    assert stored(table(1), "datasetProperties")["description"] == text


def test_one_bad_record_is_reported_and_the_rest_is_loaded() -> None:
    bad = [
        patch(table(1), "globalTags", {"op": "test", "path": "/tags/urn:li:tag:PII", "value": {}}),
        patch(table(1), "globalTags", add("/tags/urn:li:tag:PII", {"tag": "urn:li:tag:PII"}), {"op": "add"}),
        patch(table(2), "ownership", add("/owners/urn:li:corpuser:a", {"owner": "urn:li:corpuser:a"})),
        patch(table(3), "domains", add("/domains", "urn:li:domain:x")),
        record(table(4), "upstreamLineage", {"upstreams": ["not an object"]}),
        record(table(5), "upstreamLineage", ["no object"]),
        {"proposedSnapshot": {"x": {"urn": table(6), "aspects": ["text"]}}},
        {"proposedSnapshot": {"x": "text"}},
        {"proposedSnapshot": "text"},
        record(table(7), "datasetProperties", {"customProperties": {"a": float("nan")}}),
        record(table(8), "datasetProperties", {"description": "a\0b"}),
        record(table(9), "datasetProperties", {"name": "a cut emoji \ud83d"}),
        record(table(9) + "\0", "datasetProperties", {"name": "x"}),
        record(table(9) + "\ud83d", "datasetProperties", {"name": "x"}),
        record(table(9), "a" * 101, {"name": "x"}),
        record(table(9), "datasetProperties\0", {"name": "x"}),
        {"proposedSnapshot": {"x": {"urn": table(9), "aspects": True}}},
        patch(table(9), "datasetProperties", {"op": "add", "path": "/description"}),
        {"entityUrn": table(9), "aspectName": "status", "aspect": {"value": "[" * 100_000}},
        record(table(9), "datasetProperties", nested(5_000)),
    ]
    good = [record(table(n), "datasetProperties", {"name": f"t{n}"}) for n in range(10)]
    count = load(*good[:5], *bad, *good[5:])
    assert count.writes == 10
    assert sum(count.skipped.values()) == len(bad), count.skipped
    assert stored(table(1), "globalTags") is None  # all operations of a record, or none
    assert "patch of globalTags: the operation 'test' is not supported" in count.skipped


def test_a_snapshot_is_read_as_a_pair_of_name_and_value() -> None:
    body = {"urn": table(1), "aspects": [{"com.linkedin.pegasus2avro.dataset.DatasetProperties": {"name": "one"}}]}
    assert load({"proposedSnapshot": ["com.linkedin.pegasus2avro.metadata.snapshot.DatasetSnapshot", body]}).writes == 1


def test_a_file_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "deep.json"
    file.write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(Invalid, match="recursion"):
        metadata_files.read_file(file)


def test_a_file_may_hold_a_single_record(tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    file.write_text("\ufeff" + json.dumps(record(table(1), "datasetProperties", {"name": "one"})), encoding="utf-8")
    assert load(*metadata_files.read_file(file)).writes == 1
