"""Metrics, traces and logs of a running installation, and that no text of a memory or of a question is in them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.e2e.prepared_homes import prepared_home
from tests.e2e.processes import ROOT, command, environment, up
from tests.operations.otlp_receiver import Receiver, receiving

TOKEN = "token-of-prometheus"
SECRET = "xylophonequartz"  # a word that occurs in no program
WITHIN_S = 60
MAKE = """
from django.core.management import call_command
from memory_project.models import User
User.objects.create_user("ana@example.org", "a long password", is_staff=True, is_superuser=True)
call_command("createtoken", "ana@example.org")
"""
AUDIT = """
from memory_project.models import AuditEvent
for event in AuditEvent.objects.order_by("at"): print(event.tool, event.trace_id)
"""


@dataclass
class Site:
    home: Path
    port: int
    token: str
    receiver: Receiver
    answers: dict[str, httpx2.Response] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, token: str = "", **headers: str) -> httpx2.Response:
        authorization = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx2.get(f"{self.url}{path}", headers={**headers, **authorization}, timeout=60)

    def post(self, path: str, body: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json, text/event-stream"}
        return httpx2.post(f"{self.url}{path}", json=body, headers=headers, timeout=120)

    def call(self, method: str, **params: Any) -> httpx2.Response:
        return self.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})

    def log_lines(self) -> list[str]:
        return (self.home / "up.log").read_text().splitlines()


def eventually(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        if result := condition():
            return result
        time.sleep(0.2)
    raise AssertionError(f"not within {WITHIN_S} s: {what}")


def manage(home: Path, port: int, code: str) -> str:
    process = subprocess.run(
        command("shell", "--no-imports", "-c", code),
        env={**environment(home, port), "OTEL_SDK_DISABLED": "true"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Start an installation with metrics, traces and JSON logs, whose calls all have SECRET in what they send."""
    variables = {
        "METRICS_TOKEN": TOKEN, "LOG_FORMAT": "json", "LOG_LEVEL": "DEBUG", "OTEL_BSP_SCHEDULE_DELAY": "200",
        "OTEL_METRIC_EXPORT_INTERVAL": "1000",
    }  # fmt: skip
    with (
        prepared_home("tables") as (home, port),
        receiving() as receiver,
        pytest.MonkeyPatch.context() as patch,
    ):
        token = manage(home, port, MAKE).splitlines()[-1]
        for name, value in {**variables, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}.items():
            patch.setenv(name, value)
        with up(home, port, "--no-demo") as process:
            assert process.poll() is None, (home / "up.log").read_text()
            started = Site(home, port, token, receiver)
            plant(started)
            yield started


def plant(site: Site) -> None:
    text = f"Revenue in {SECRET} excludes refunds, says {SECRET}."
    remember = {"command": "remember", "content": text, "tags": [SECRET], "entity_urns": [f"urn:li:dataset:{SECRET}"]}
    site.answers = {
        "remember": site.call("tools/call", name="memory_manage", arguments=remember),
        "recall": site.call("tools/call", name="memory_recall", arguments={"query": f"who is {SECRET}?"}),
        "invalid": site.call("tools/call", name="memory_manage", arguments={"command": SECRET, "id": SECRET}),
        "unknown tool": site.call("tools/call", name=f"tool_{SECRET}", arguments={"x": SECRET}),
        "prompt": site.call("prompts/get", name=SECRET, arguments={"x": SECRET}),
        "method": site.call(f"{SECRET}/list"),
        "resource": site.call("resources/read", uri=f"commonplace://memory/{SECRET}"),
        "search": site.post("/api/v1/memories/recall/", {"query": f"who is {SECRET}?"}),
        "unknown filter": site.get(f"/api/v1/memories/?query={SECRET}", site.token),
        "no address": site.get(f"/api/v1/nothing/?q={SECRET}", site.token),
        "page": site.get(f"/nothing?q={SECRET}", Cookie=f"sessionid={SECRET}"),
        "export": site.post("/api/v1/exports/", {}),
    }


def test_the_answers_are_those_of_a_server_without_traces(site: Site) -> None:
    assert SECRET in site.answers["recall"].text
    statuses = {name: answer.status_code for name, answer in site.answers.items()}
    assert (statuses["search"], statuses["no address"], statuses["page"], statuses["export"]) == (200, 404, 404, 202)


def test_a_call_is_one_trace_with_its_statements(site: Site) -> None:
    own = site.answers["recall"].headers["x-request-id"]
    spans = eventually(lambda: site.receiver.traces().get(own), "the trace of the recall")
    names = [span.name for span in spans]
    assert "tools/call memory_recall" in names
    ids = {span.span_id: span for span in spans}
    statement = next(span for span in spans if span.name == "SELECT memory_records")
    parents = []
    while statement.parent_span_id:
        statement = ids[statement.parent_span_id]
        parents.append(statement.name)
    assert parents == ["tools/call memory_recall", "POST"]


def test_a_task_continues_the_trace_of_its_request(site: Site) -> None:
    own = site.answers["export"].headers["x-request-id"]
    task = "task foundation.work.jobs.run"
    eventually(lambda: task in [span.name for span in site.receiver.traces().get(own, ())], "the task's span")
    names = [span.name for span in site.receiver.traces()[own]]
    assert "POST /api/v1/exports/" in names


def test_durations_of_messages_are_sent_as_metrics(site: Site) -> None:
    eventually(lambda: "mcp.server.operation.duration" in site.receiver.metrics(), "the metric")


def test_no_text_is_in_traces_metrics_and_logs(site: Site) -> None:
    """Logs have the paths of requests, but not their query strings."""
    eventually(lambda: len(site.receiver.traces()) >= len(site.answers), "the traces of all calls")
    leaks = [path for path, body in site.receiver.bodies if SECRET.encode() in body]
    assert leaks == []
    assert SECRET not in site.get("/metrics", TOKEN).text
    assert [line for line in site.log_lines() if SECRET in line] == []


def test_log_lines_are_json_with_the_id_of_their_request(site: Site) -> None:
    lines = [json.loads(line) for line in site.log_lines() if line.startswith("{")]
    not_found = site.answers["no address"].headers["x-request-id"]
    own = [line for line in lines if line.get("request_id") == not_found]
    assert any(line["logger"] == "django.request" and line["level"] == "WARNING" for line in own)


def test_audit_and_errors_name_the_request(site: Site) -> None:
    audited = dict(line.split(" ") for line in manage(site.home, site.port, AUDIT).splitlines() if " " in line)
    assert audited["memory_recall"] == site.answers["recall"].headers["x-request-id"]
    problem = site.answers["no address"].json()
    assert problem["trace_id"] == site.answers["no address"].headers["x-request-id"]
    assert f'\\"trace_id\\": \\"{site.answers["invalid"].headers["x-request-id"]}' in site.answers["invalid"].text


def test_metrics_count_the_calls_of_all_doors_and_processes(site: Site) -> None:
    text = eventually(
        lambda: (body := site.get("/metrics", TOKEN).text) and 'door="worker"' in body and body, "a task in the metrics"
    )
    assert 'commonplace_calls_total{door="mcp",outcome="ok",tool="memory_recall"} 1.0' in text
    assert 'commonplace_calls_total{door="mcp",outcome="not_found",tool="other"} 1.0' in text
    assert 'commonplace_calls_total{door="rest",outcome="ok",tool="api-exports.post"} 1.0' in text
    assert "commonplace_database_up 1.0" in text
    assert site.get("/metrics").status_code == site.get("/metrics", "wrong").status_code == 401


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
def test_probes_may_come_to_an_address_that_is_no_allowed_host(site: Site, path: str) -> None:
    assert site.get(path, Host="10.1.2.3:8000").status_code == 200
    assert site.get("/sign-in/", Host="10.1.2.3:8000").status_code == 400
