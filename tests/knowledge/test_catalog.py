"""The contract that both catalogs fulfil, DataHub failures, metadata files, and shared functions."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from hypothesis import given
from hypothesis import strategies as st

from foundation.people.caller import Caller
from knowledge.catalog import entity_view, lineage
from knowledge.catalog.datahub import DataHubCatalog
from knowledge.catalog.embedded import LocalCatalog
from knowledge.catalog.interface import Catalog, CatalogUnavailable, Write, WriteRun
from knowledge.catalog.json_patch import ABSENT, equal, from_pointer, patched, pointer, value_at
from knowledge.catalog.metadata_files import aspect_name
from knowledge.catalog.projections import rebuild
from knowledge.models import CatalogAspect, CatalogEntity, LineageEdge
from tests.fake_datahub import Faults
from tests.knowledge.conftest import MART, ORDERS, REFUNDS, STAMP, V2_COLUMN, fill_catalog, put, upstream

RUN = WriteRun("cs-test", "cora@example.org", {"changeset": "1"})
TAG = "urn:li:tag:PII"


def at(catalog: Catalog, aspect: str, *path: str, urn: str = ORDERS) -> Any:
    return value_at(aspect, catalog.read([urn], [aspect])[urn][aspect].value, path)


# -- contract of both catalogs ----------------------------------------------------------------------------


def test_read_distinguishes_absent_from_empty(either_catalog: Catalog) -> None:
    read = either_catalog.read([ORDERS, "urn:li:dataset:nowhere"], ["datasetProperties", "globalTags"])
    assert read[ORDERS]["datasetProperties"].value == {
        "name": "sales.orders", "qualifiedName": "sales.orders", "description": "Table sales.orders.",
        "customProperties": {}, "tags": [],
    }  # fmt: skip
    assert read[ORDERS]["datasetProperties"].version == 1
    assert read[ORDERS]["globalTags"].value is None
    assert read["urn:li:dataset:nowhere"]["datasetProperties"].value is None


@pytest.mark.parametrize(
    ("aspect", "path", "value"),
    [
        ("globalTags", ("tags", TAG), {"tag": TAG}),
        ("glossaryTerms", ("terms", "urn:li:glossaryTerm:net"), {"urn": "urn:li:glossaryTerm:net"}),
        (
            "ownership",
            ("owners", "urn:li:corpuser:x", "DATA_STEWARD"),
            {"owner": "urn:li:corpuser:x", "type": "DATA_STEWARD"},
        ),
        ("editableDatasetProperties", ("description",), "What people say."),
        ("editableSchemaMetadata", ("editableSchemaFieldInfo", "amount", "description"), "In euros."),
        ("editableSchemaMetadata", ("editableSchemaFieldInfo", V2_COLUMN, "globalTags", "tags", TAG), {"tag": TAG}),
        (
            "institutionalMemory",
            ("elements", "https://wiki/x/y?z=~1"),
            {"url": "https://wiki/x/y?z=~1", "description": "w", "createStamp": STAMP},
        ),
        ("domains", ("domains",), ["urn:li:domain:sales"]),
        ("deprecation", (), {"deprecated": True, "note": "old", "actor": "urn:li:corpuser:x"}),
        ("status", ("removed",), True),
    ],
)
def test_a_write_changes_its_path_and_can_be_undone(
    either_catalog: Catalog, aspect: str, path: tuple[str, ...], value: Any
) -> None:
    before = either_catalog.read([ORDERS], [aspect])[ORDERS][aspect].value
    either_catalog.write(Write(ORDERS, aspect, path, "add", value), RUN)
    assert equal(at(either_catalog, aspect, *path), value)
    either_catalog.write(Write(ORDERS, aspect, path, "remove"), RUN)
    assert at(either_catalog, aspect, *path) is ABSENT
    if before is not None:
        assert equal(either_catalog.read([ORDERS], [aspect])[ORDERS][aspect].value, before)


def test_removing_an_element_keeps_the_others(either_catalog: Catalog) -> None:
    for tag in ("a", "b", "c"):
        either_catalog.write(
            Write(ORDERS, "globalTags", ("tags", f"urn:li:tag:{tag}"), "add", {"tag": f"urn:li:tag:{tag}"}), RUN
        )
    either_catalog.write(Write(ORDERS, "globalTags", ("tags", "urn:li:tag:b"), "remove"), RUN)
    assert [tag["tag"] for tag in at(either_catalog, "globalTags", "tags")] == ["urn:li:tag:a", "urn:li:tag:c"]


def test_twenty_concurrent_writers_lose_nothing(either_catalog: Catalog) -> None:
    def write(n: int) -> None:
        try:
            tag, url = f"urn:li:tag:t{n}", f"https://wiki/{n}"
            either_catalog.write(Write(ORDERS, "globalTags", ("tags", tag), "add", {"tag": tag}), RUN)
            if n < 6:  # this aspect is read, changed and written back with a version condition
                link = {"url": url, "description": url, "createStamp": STAMP}
                either_catalog.write(Write(ORDERS, "institutionalMemory", ("elements", url), "add", link), RUN)
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=[n]) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(at(either_catalog, "globalTags", "tags")) == 20
    assert len(at(either_catalog, "institutionalMemory", "elements")) == 6


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("other", ["writer", "rebuild"])
def test_derived_rows_keep_what_another_transaction_wrote_meanwhile(other: str) -> None:
    fill_catalog()
    started = threading.Event()
    faults: list[BaseException] = []

    def work() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET application_name = 'second'")
            started.set()
            if other == "rebuild":
                list(rebuild())
            else:
                put(ORDERS, "deprecation", {"deprecated": True, "note": "", "actor": STAMP["actor"]})
        except BaseException as error:
            faults.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    with transaction.atomic():
        put(ORDERS, "editableDatasetProperties", {"description": "One row per order."})
        thread.start()
        started.wait()
        wait_until_blocked("second")
    thread.join()
    row = CatalogEntity.objects.get(urn=ORDERS)
    assert not faults
    assert (row.description, row.deprecated) == ("One row per order.", other == "writer")


def wait_until_blocked(application: str) -> None:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(waiting, [application])
            if cursor.fetchone()[0]:
                return
    pytest.fail("the second connection does not wait for the first")


def test_existing_leaves_out_soft_deleted_entities(either_catalog: Catalog) -> None:
    assert either_catalog.existing([ORDERS, MART, "urn:li:dataset:nowhere"]) == {ORDERS, MART}
    either_catalog.write(Write(MART, "status", ("removed",), "add", True), RUN)
    assert either_catalog.existing([ORDERS, MART]) == {ORDERS}


def test_search_finds_names_and_descriptions(either_catalog: Catalog) -> None:
    assert [match.urn for match in either_catalog.search("refunds", types=["dataset"])] == [REFUNDS]
    assert [match.name for match in either_catalog.search("net revenue", types=["glossaryTerm"])] == ["Net revenue"]
    assert either_catalog.search("nothing like this") == []


def test_lineage_is_bounded_by_hops_in_both_directions(either_catalog: Catalog) -> None:
    far = "urn:li:dataset:(urn:li:dataPlatform:snowflake,report,PROD)"
    put(far, "upstreamLineage", {"upstreams": [upstream(MART)]})
    down = either_catalog.lineage(ORDERS, direction="downstream", hops=2, limit=10)
    assert [(node.urn, node.distance) for node in down] == [(MART, 1), (far, 2)]
    assert [n.urn for n in either_catalog.lineage(ORDERS, direction="downstream", hops=1, limit=10)] == [MART]
    assert {n.urn for n in either_catalog.lineage(MART, direction="upstream", hops=1, limit=10)} == {ORDERS, REFUNDS}


def test_graph_recall_follows_two_steps_of_lineage(small_catalog: None, alice: Caller) -> None:
    farther = [f"urn:li:dataset:(urn:li:dataPlatform:snowflake,report_{number},PROD)" for number in range(2)]
    for urn, source in zip(farther, [MART, farther[0]], strict=True):
        put(urn, "upstreamLineage", {"upstreams": [upstream(source)]})
    distances, _ = lineage.neighbors(alice, [ORDERS])
    assert distances == {ORDERS: 0, MART: 1, farther[0]: 2}


# -- a DataHub that fails ---------------------------------------------------------------------------------


def tag_write(name: str = TAG) -> Write:
    return Write(ORDERS, "globalTags", ("tags", name), "add", {"tag": name})


def datahub() -> Catalog:
    return DataHubCatalog.configured()


def test_patches_are_plain_lists_and_keep_the_run_id(gms: Faults) -> None:
    datahub().write(tag_write(), RUN)
    (proposal,) = gms.proposals
    assert proposal["changeType"] == "PATCH"
    assert json.loads(proposal["aspect"]["value"]) == [{"op": "add", "path": f"/tags/{TAG}", "value": {"tag": TAG}}]
    assert proposal["systemMetadata"]["runId"] == "cs-test"
    assert proposal["systemMetadata"]["properties"]["curator"] == "cora@example.org"


def test_an_aspect_without_patch_template_is_written_with_a_version_condition(gms: Faults) -> None:
    gms.no_patch_template.add("globalTags")
    datahub().write(tag_write(), RUN)
    # the SDK retries after a status of 500
    assert {proposal["changeType"] for proposal in gms.proposals[:-1]} == {"PATCH"}
    assert gms.proposals[-1]["changeType"] == "UPSERT"
    assert gms.proposals[-1]["headers"] == {"If-Version-Match": "-1"}
    assert at(datahub(), "globalTags", "tags", TAG) == {"tag": TAG}


def test_a_write_is_verified_if_the_server_ignores_preconditions(gms: Faults) -> None:
    gms.ignore_preconditions = True
    datahub().write(Write(ORDERS, "domains", ("domains",), "add", ["urn:li:domain:x"]), RUN)
    assert at(datahub(), "domains", "domains") == ["urn:li:domain:x"]


@pytest.mark.parametrize("status", [429, 502, 503])
def test_a_busy_server_counts_as_unavailable(gms: Faults, status: int) -> None:
    gms.write_status, gms.write_status_times = status, 5
    with pytest.raises(CatalogUnavailable, match=str(status)):
        datahub().write(tag_write(), RUN)


def test_a_slow_server_counts_as_unavailable(gms: Faults, settings: Any) -> None:
    gms.delay_s = 0.6
    slow = DataHubCatalog(settings.DATAHUB_GMS_URL, "", 0.2)
    with pytest.raises(CatalogUnavailable):
        slow.read([ORDERS], ["status"])
    gms.delay_s = 0.0


def test_an_unreachable_server_counts_as_unavailable() -> None:
    with pytest.raises(CatalogUnavailable):
        DataHubCatalog("http://127.0.0.1:9", "", 0.5).read([ORDERS], ["status"])


# -- metadata files ---------------------------------------------------------------------------------------


def test_loading_the_demo_catalog_twice_changes_nothing(db: None, capsys: Any) -> None:
    file = Path(__file__).parent.parent.parent / "memory_project" / "operating" / "demo" / "catalog.json"
    call_command("load_catalog", str(file), verbosity=0)
    entities, versions = CatalogEntity.objects.count(), CatalogAspect.objects.count()
    assert CatalogEntity.objects.filter(entity_type="dataset").count() >= 30
    assert LineageEdge.objects.count() > 20
    call_command("load_catalog", str(file), verbosity=0)
    assert (CatalogEntity.objects.count(), CatalogAspect.objects.count()) == (entities, versions)
    assert f"{versions} unchanged" in capsys.readouterr().out
    assert LocalCatalog().search("revenue mart")[0].name == "fernhill.sales.revenue_mart"


BOOTSTRAP = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "bootstrap_mce.json"


@pytest.mark.skipif(not BOOTSTRAP.exists(), reason=f"DataHub's sample metadata is not at {BOOTSTRAP}")
def test_datahubs_sample_metadata_loads(db: None, capsys: Any) -> None:
    call_command("load_catalog", str(BOOTSTRAP), verbosity=0)
    datasets = CatalogEntity.objects.filter(entity_type="dataset", columns__gt="")
    assert datasets.count() == 7
    edges = set(LineageEdge.objects.values_list("upstream", "downstream"))
    tables = [down for _, down in edges if down.startswith("urn:li:dataset:")]
    assert len(set(tables)) == 6
    job = "urn:li:dataJob:(urn:li:dataFlow:(airflow,dag_abc,PROD),task_456)"
    hive = "urn:li:dataset:(urn:li:dataPlatform:hive,{},PROD)"
    assert {(hive.format("logging_events"), job), (job, hive.format("fct_users_deleted"))} <= edges
    chart, board = "urn:li:chart:(looker,baz2)", "urn:li:dashboard:(looker,baz)"
    hdfs = "urn:li:dataset:(urn:li:dataPlatform:hdfs,SampleHdfsDataset,PROD)"
    assert {(hdfs, chart), (chart, board)} <= edges
    assert [node.urn for node in LocalCatalog().lineage(hdfs, direction="downstream", hops=3, limit=200)].count(board)
    assert "datasetProfile 2" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["", "{}", "nonsense", '{"a": 1}'])
def test_an_invalid_metadata_file_is_rejected(db: None, tmp_path: Path, content: str) -> None:
    (tmp_path / "file.json").write_text(content)
    with pytest.raises(CommandError, match=r"file\.json"):
        call_command("load_catalog", str(tmp_path / "file.json"), verbosity=0)


def test_unusable_records_are_counted(db: None, tmp_path: Path, capsys: Any) -> None:
    records = [1, {}, {"entityUrn": "orders", "aspectName": "status", "aspect": {"json": {}}},
               {"entityUrn": ORDERS, "aspectName": "status", "aspect": {"value": "{"}},
               {"entityUrn": ORDERS, "aspectName": "status", "changeType": "DELETE", "aspect": {"json": {}}},
               {"entityUrn": ORDERS, "aspectName": "status", "aspect": {"json": {"removed": False}}}]  # fmt: skip
    (tmp_path / "file.json").write_text(json.dumps(records))
    call_command("load_catalog", str(tmp_path / "file.json"), verbosity=0)
    assert "1 aspects written" in (output := capsys.readouterr().out)
    reasons = "change type DELETE 1, neither MCE nor MCP 1, no readable aspect 1, no usable URN 1"
    assert f"5 records skipped: {reasons}" in output


# -- shared functions -------------------------------------------------------------------------------------


def test_class_names_become_aspect_names() -> None:
    names = ["com.linkedin.pegasus2avro.dataset.DatasetProperties", "x.MLModelProperties", "x.Status"]
    assert [aspect_name(name) for name in names] == ["datasetProperties", "mlModelProperties", "status"]


def test_columns_are_found_by_exact_and_by_simple_path(small_catalog: None) -> None:
    read = LocalCatalog().read([ORDERS], entity_view.ASPECTS)[ORDERS]
    entity = entity_view.parse_entity(ORDERS, {name: aspect.value for name, aspect in read.items() if aspect.value})
    assert [match.path for name in ("customer.id", V2_COLUMN) if (match := entity.column(name))] == [V2_COLUMN] * 2
    assert entity.column("customer") is None


def test_derived_rows_can_be_rebuilt(small_catalog: None) -> None:
    before = list(CatalogEntity.objects.values("urn", "name", "columns"))
    CatalogEntity.objects.all().delete()
    LineageEdge.objects.all().delete()
    list(rebuild())
    assert list(CatalogEntity.objects.values("urn", "name", "columns")) == before
    assert LineageEdge.objects.count() == 2


def test_equality_is_canonical_json() -> None:
    assert equal({"a": 1, "b": [1]}, {"b": [1], "a": 1})
    assert not equal(1, True)
    assert not equal("", None)


names = st.text(alphabet="ab/~:.é ", min_size=1, max_size=6)


@given(st.lists(names, max_size=5))
def test_a_json_pointer_round_trips(path: list[str]) -> None:
    assert list(from_pointer(pointer(path))) == path


@given(st.lists(names, unique=True, max_size=6), names)
def test_adding_and_removing_an_element_is_the_identity(tags: list[str], new: str) -> None:
    value = {"tags": [{"tag": tag} for tag in tags if tag != new]}
    added = patched("globalTags", value, ("tags", new), "add", {"tag": new})
    assert value_at("globalTags", added, ("tags", new)) == {"tag": new}
    assert equal(patched("globalTags", added, ("tags", new), "remove", None), value)


@pytest.mark.parametrize(
    ("aspect", "path", "new", "required"),
    [
        (
            "ownership",
            ("owners", "urn:li:corpuser:x", "NONE"),
            {"owner": "urn:li:corpuser:x", "type": "NONE"},
            "lastModified",
        ),
        ("glossaryTerms", ("terms", "urn:li:glossaryTerm:net"), {"urn": "urn:li:glossaryTerm:net"}, "auditStamp"),
    ],
)
def test_the_first_element_brings_the_required_field_of_its_aspect(
    aspect: str, path: tuple[str, ...], new: dict[str, str], required: str
) -> None:
    assert patched(aspect, None, path, "add", new) == {path[0]: [new], required: STAMP}
