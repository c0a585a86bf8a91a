"""Metrics, probes, request ids and logs. tests/operations/test_observability.py tries them on a running server."""

from __future__ import annotations

import json
import logging
import re
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.core.cache import cache
from django.db import DatabaseError, connection, transaction
from django_q.signals import post_execute_in_worker, pre_enqueue, pre_execute
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.parser import text_string_to_metric_families

from foundation.database.engine import spans
from foundation.people.caller import Caller
from memories import metrics_hooks
from memories.models import MemoryRecord
from memories.operations import RecallMemories
from memories.retrieval.recall import recall
from memory_project.memory_extension import ProjectMemoryExtension
from memory_project.models import AuditEvent
from memory_project.operating.observability import (
    calls,
    exposition,
    installation_metrics,
    instruments,
    logs,
    process_files,
    process_metrics,
    request_context,
    workers,
)
from memory_project.operating.observability.json_logs import JSONFormatter
from memory_project.web import draining, readiness
from memory_project.web.client_address import ClientAddress
from memory_project.web.probes import Probes
from memory_project.web.request_ids import RequestIds
from tests.docs_tables import ROOT, table

TOKEN = "token-of-prometheus"
COUNTING = """
import sys
from prometheus_client import Counter, Gauge, Histogram
Counter("tried", "Tries", ["kind"]).labels("x").inc(int(sys.argv[1]))
Histogram("took", "Time", buckets=[1]).observe(0.5)
Gauge("alive", "Alive", multiprocess_mode="livesum").set(1)
"""


@pytest.fixture
def counted(settings: Any) -> Iterator[None]:
    """Count calls in this process, and forget what others have counted."""
    settings.METRICS_TOKEN = TOKEN
    for metric in (instruments.CALLS, instruments.DURATION, instruments.SKIPPED):
        metric.clear()
    process_metrics.observe()
    installation_metrics.forget()
    yield
    calls.count_with(None)
    metrics_hooks.observe_with(metrics_hooks.Silent())
    process_metrics._is_on = False


@pytest.fixture
def fresh_probe() -> Iterator[None]:
    readiness._last = None
    yield
    readiness._last = None
    draining.reset()


@pytest.fixture
def database_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let new connections fail, while this test keeps its own."""
    monkeypatch.setitem(connection.settings_dict, "HOST", "/nonexistent")


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": request_context.reference().encode()})


async def ask(path: str, *, client: str = "127.0.0.1", app: Any = nothing, **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(ClientAddress(Probes(RequestIds(app))), client=(client, 5000))
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx.AsyncClient(transport=transport, base_url="http://10.1.2.3:8000") as http:
        return await http.get(path, headers=sent)


def value_of(text: str, name: str, **labels: str) -> float | None:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return sample.value
    return None


# -- probes ----------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.usefixtures("fresh_probe")
@pytest.mark.django_db(transaction=True)
async def test_a_process_that_stops_is_alive_but_not_ready() -> None:
    assert ((await ask("/livez")).status_code, (await ask("/readyz")).status_code) == (200, 200)
    draining.start()
    ready = await ask("/readyz")
    assert (ready.status_code, ready.json()) == (503, {"status": "draining"})
    assert (await ask("/livez")).status_code == 200


@pytest.mark.usefixtures("fresh_probe", "database_away")
@pytest.mark.django_db
def test_a_process_without_database_is_not_ready() -> None:
    assert readiness.problem() == "the database does not answer"


@pytest.mark.usefixtures("fresh_probe")
@pytest.mark.django_db
def test_a_process_is_not_ready_before_its_migrations_but_is_after_newer_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    own = readiness.own_migrations()
    assert ("memory_project", "0001_initial") in own
    monkeypatch.setattr(readiness, "own_migrations", lambda: own - {("memory_project", "0001_initial")})
    assert readiness.problem() == ""
    readiness._last = None
    monkeypatch.setattr(readiness, "own_migrations", lambda: own | {("memories", "9999_next")})
    assert readiness.problem() == "the database lacks 1 migrations"


# -- the door of the metrics -----------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.usefixtures("counted")
@pytest.mark.django_db(transaction=True)
async def test_metrics_need_the_token_and_exist_only_with_one(settings: Any) -> None:
    statuses = [
        (await ask("/metrics", **headers)).status_code
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {TOKEN}"})
    ]
    assert statuses == [401, 401, 200]
    settings.METRICS_TOKEN = ""
    assert (await ask("/metrics", Authorization="Bearer ")).status_code == 404


@pytest.mark.usefixtures("counted", "database_away")
@pytest.mark.django_db
def test_without_database_a_process_reports_its_own_metrics() -> None:
    calls.tool_called("mcp-http", "made up", "", 0.1)
    text = exposition.render().decode()
    assert value_of(text, "commonplace_database_up") == 0
    assert value_of(text, "commonplace_calls_total", door="mcp", tool="other", outcome="ok") == 1
    assert "commonplace_tasks_waiting" not in text


# -- what is counted -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("counted")
def test_labels_have_no_values_that_clients_make_up() -> None:
    calls.know(["memory_recall"])
    calls.tool_called("mcp-http", "memory_recall", "forbidden", 0.1)
    calls.tool_called("mcp-http", "ana@example.org", "made up", 0.1)
    calls.page_requested("portal", "", "BREW", 404, "", 0.1)
    calls.page_requested("rest", "api-memories", "BREW", 405, "", 0.1)
    calls.task_done(calls.label_of_task("os.system"), False, 0.1)
    counted = {
        tuple(sample.labels.values()) for sample in next(iter(instruments.CALLS.collect())).samples if sample.value
    }
    assert {labels for labels in counted if len(labels) == 3} == {
        ("mcp", "memory_recall", "refused"),
        ("mcp", "other", "error"),
        ("portal", "other", "not_found"),
        ("rest", "api-memories.other", "invalid"),
        ("worker", "other", "error"),
    }


@pytest.mark.usefixtures("counted")
@pytest.mark.django_db
def test_pages_and_rest_requests_are_counted_by_pattern(client: Any, alice_user: Any, fact: MemoryRecord) -> None:
    client.force_login(alice_user)
    client.get(f"/memories/{fact.pk}/")
    client.get("/api/v1/memories/00000000-0000-0000-0000-000000000000/")
    client.get("/api/v1/nothing/")
    cache.clear()
    text = generate_latest(instruments.REGISTRY).decode()
    counted = {
        tuple(sample.labels[name] for name in ("door", "tool", "outcome"))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "commonplace_calls_total"
    }
    assert counted == {
        ("portal", "memory.get", "ok"),
        ("rest", "api-memories-one.get", "not_found"),
        ("rest", "other", "not_found"),
    }


@pytest.mark.usefixtures("counted")
@pytest.mark.django_db
def test_recalls_are_counted(alice: Caller, fact: MemoryRecord, settings: Any) -> None:
    def degraded() -> float:
        return float(instruments.DEGRADED._value.get())

    before = degraded()
    recall(alice, RecallMemories(query="refunds"))
    assert degraded() == before
    settings.EMBEDDING_PROVIDER = "none"
    recall(alice, RecallMemories(query="refunds"))
    assert degraded() == before + 1


def test_counters_go_on_when_a_process_has_ended(tmp_path: Path) -> None:
    environment = {process_files.VARIABLE: str(tmp_path)}

    def count(number: int) -> None:
        subprocess.run([sys.executable, "-c", COUNTING, str(number)], env=environment, check=True)

    collector: Any = MultiProcessCollector

    def collect() -> str:
        with process_files.locked(tmp_path):
            process_files.merge_ended(tmp_path)
            return generate_latest(collector(CollectorRegistry(), str(tmp_path))).decode()

    count(3)
    assert value_of(collect(), "tried_total", kind="x") == 3
    count(4)
    text = collect()
    assert (value_of(text, "tried_total", kind="x"), value_of(text, "took_count")) == (7, 2)
    assert value_of(text, "alive") is None
    assert sorted(file.name for file in tmp_path.glob("*.db")) == ["counter_0.db", "histogram_0.db"]


# -- documentation, dashboard and alerts -----------------------------------------------------------------


@pytest.fixture(scope="module")
def names(django_db_blocker: Any, django_db_setup: None) -> dict[str, str]:
    """Return the type of each metric by its name, as Prometheus names it."""
    installation_metrics.forget()
    with django_db_blocker.unblock():
        families = [*instruments.REGISTRY.collect(), *installation_metrics.Installation().collect()]
    found = {family.name + ("_total" if family.type == "counter" else ""): family.type for family in families}
    # missing before the first comparison with the catalog
    return found | {f"commonplace_{name}": "gauge" for name in installation_metrics.SINGLE}


def test_the_documented_metrics_are_those_of_the_registry(names: dict[str, str]) -> None:
    documented = {name: cells[0] for name, cells in table("docs/observability.md", "| metric |").items()}
    assert documented == names


@pytest.mark.parametrize("file", ["deploy/grafana-dashboard.json", "deploy/prometheus-alerts.yaml"])
def test_dashboard_and_alerts_name_metrics_that_exist(names: dict[str, str], file: str) -> None:
    parts = {f"{name}{part}" for name, kind in names.items() if kind == "histogram" for part in ("_bucket", "_count")}
    used = set(re.findall(r"\bcommonplace_\w+", (ROOT / file).read_text()))
    assert used - set(names) - parts == set()
    assert len(used) > 10


def promtool(*arguments: str, text: str = "") -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("NO PROMTOOL, so neither metrics nor alert rules were checked: install Debian's package prometheus")
    process = subprocess.run([program, *arguments], input=text, capture_output=True, text=True, cwd=ROOT)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout + process.stderr


def test_alerts_fire_when_they_should() -> None:
    promtool("test", "rules", "tests/data/prometheus-alerts-test.yaml")


@pytest.mark.usefixtures("counted")
@pytest.mark.django_db
def test_prometheus_reads_the_metrics_without_complaint() -> None:
    calls.tool_called("mcp-http", "memory_recall", "", 0.1)
    assert promtool("check", "metrics", text=exposition.render().decode()) == ""


# -- request ids -----------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_only_a_trusted_proxy_chooses_the_id_of_a_request(settings: Any) -> None:
    settings.TRUSTED_PROXIES = ["10.0.0.5"]
    from_proxy = await ask("/", client="10.0.0.5", X_Request_ID="from-the-proxy")
    assert (from_proxy.headers["x-request-id"], from_proxy.text) == ("from-the-proxy", "from-the-proxy")
    outsider = await ask("/", client="10.0.0.6", X_Request_ID="from-an-outsider")
    assert re.fullmatch("[0-9a-f]{32}", outsider.headers["x-request-id"])
    broken = await ask("/", client="10.0.0.5", X_Request_ID="two words")
    assert re.fullmatch("[0-9a-f]{32}", broken.headers["x-request-id"])


@pytest.mark.django_db
def test_errors_and_audit_name_the_request_until_its_person_is_wiped(client: Any, alice_user: Any) -> None:
    client.force_login(alice_user)
    with request_context.within("request-of-alice"):
        response = client.get("/api/v1/memories/00000000-0000-0000-0000-000000000000/")
    assert response.json()["trace_id"] == "request-of-alice"
    event = AuditEvent.objects.get(tool="rest.api-memories-one.get")
    assert event.trace_id == "request-of-alice"
    ProjectMemoryExtension().owner_wiped(alice_user.email, "somebody")
    event.refresh_from_db()
    assert event.trace_id == ""


@pytest.mark.django_db
def test_admins_find_the_calls_of_a_request(client: Any, ada_user: Any, alice_user: Any) -> None:
    client.force_login(alice_user)
    for name in ("first-request", "second-request"):
        with request_context.within(name):
            client.get("/api/v1/memories/", headers={"accept": "application/json"})
    assert client.get("/admin/audit/?trace_id=first-request").status_code in (302, 403)
    client.force_login(ada_user)
    page = client.get("/admin/audit/?trace_id=first-request")
    assert [event.trace_id for event in page.context["page"].rows] == ["first-request"]


def test_a_task_has_the_id_of_the_request_that_has_queued_it() -> None:
    task = {"func": "memories.tasks.close_gaps", "name": "x"}
    with request_context.within("request-of-alice"):
        pre_enqueue.send(sender="test", task=task)
    pre_execute.send(sender="test", func=None, task=task)
    assert request_context.request_id() == "request-of-alice"
    post_execute_in_worker.send(sender="test", func=None, task={**task, "success": True})
    assert request_context.request_id() == ""
    unrelated: dict[str, Any] = {"func": "memories.tasks.close_gaps"}
    pre_enqueue.send(sender="test", task=unrelated)
    assert workers.CARRIER not in unrelated


# -- logs and spans --------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_tracebacks_in_logs_do_not_quote_rows(fact: MemoryRecord) -> None:
    secret = "xylophone"
    with pytest.raises(DatabaseError, match=secret) as raised, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("INSERT INTO memory_records (content) VALUES (%s)", [secret])
    text = logs.without_texts(raised._excinfo)
    assert secret not in text
    assert "psycopg.errors.NotNullViolation (SQLSTATE 23502)" in text
    assert "test_observability.py" in text
    with pytest.raises(OSError, match="missing") as missing:
        Path("missing.toml").read_text()
    assert "missing.toml" in logs.without_texts(missing._excinfo)


def test_a_failed_task_is_logged_without_its_message() -> None:
    try:
        raise ValueError("xylophone")
    except ValueError as error:
        report = f"{error} : {traceback.format_exc()}"
    record = logging.LogRecord(logs.QUEUE, logging.ERROR, "", 0, f"Failed 'x' (name) - {report}", None, None)
    assert logs.WithRequest().filter(record)
    assert "xylophone" not in record.getMessage()
    assert record.getMessage().startswith("Failed 'x' (name)\n  File ")
    assert record.getMessage().endswith("\nValueError")


def test_a_json_line_has_the_id_of_its_request() -> None:
    record = logging.LogRecord("memories", logging.WARNING, "", 0, "slow: %s", ("recall",), None)
    with request_context.within("request-of-alice"):
        logs.WithRequest().filter(record)
    line = json.loads(JSONFormatter().format(record))
    assert (line["message"], line["level"], line["request_id"]) == ("slow: recall", "WARNING", "request-of-alice")
    assert logs.LineFormatter("%(message)s").format(record) == "slow: recall [request request-of-alice]"


def test_the_warnings_of_a_pool_are_logged_once_in_a_while(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = logging.getLogger("psycopg.pool")
    for seldom in pool.filters:
        monkeypatch.setattr(seldom, "passed_at", {})
    refused, retried = "error connecting in %r: %s", "reconnection attempt in %r failed after %s sec"
    for at, message in ((0.0, refused), (1.0, retried), (2.0, refused), (11.0, refused), (12.0, refused)):
        monkeypatch.setattr(time, "monotonic", lambda at=at: at)
        pool.warning(message, "pool-1", at)
    assert [record.args for record in caplog.records] == [("pool-1", 0.0), ("pool-1", 1.0), ("pool-1", 11.0)]


@pytest.mark.parametrize("secret", ["cpl_0f9d8e7c6b5a", "sk-ant-api03-Zx81kQvP7", "postgres://ann:hunter2@db"])
def test_log_lines_have_no_secrets(secret: str) -> None:
    record = logging.LogRecord("x", logging.WARNING, "x.py", 1, "Not Found: /find/?q=%s", (secret,), None)
    for formatter in (logs.LineFormatter("%(message)s"), JSONFormatter()):
        line = formatter.format(record)
        assert "/find/?q=" in line
        assert secret not in line
        assert "hunter2" not in line
    try:
        raise OSError(f"can't reach {secret}")
    except OSError:
        record.exc_info = sys.exc_info()
    for formatter in (logs.LineFormatter("%(message)s"), JSONFormatter()):
        assert "can't reach" in formatter.format(record)
        assert secret not in formatter.format(record)


def test_the_summary_of_a_statement_has_no_words_of_its_values() -> None:
    spans.record_with(None)
    assert spans.summary('SELECT "memory_records"."id" FROM "memory_records" WHERE id = 1') == (
        "SELECT",
        "memory_records",
    )
    assert spans.summary("SELECT 'a note from ana about refunds'") == ("SELECT", "")
    assert spans.summary("WITH q AS (SELECT 1) UPDATE memory_records SET x = 1 FROM q") == ("WITH", "memory_records")
    assert spans.summary("ana@example.org") == ("OTHER", "")
    assert spans.summary(b"SELECT 1") == ("OTHER", "")
