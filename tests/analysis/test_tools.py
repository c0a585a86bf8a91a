"""The analysis tools through a real MCP client: workflow, progress and cancellation. Also pages and exports."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from typing import Any

import anyio
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client as Browser
from django.urls import reverse
from mcp import Client

from analysis import findings, sessions
from analysis.ingest import ingest
from analysis.models import Action, Finding, Ingest, IngestedRecord, Session
from analysis.operations import IngestRecords, StoreFindings
from analysis.sources.declaration import parse
from foundation.operations.errors import Invalid
from foundation.people.caller import Caller
from knowledge.models import Insight
from memory_project.mcp.server import build_server
from memory_project.mcp.tool_list import enabled_tools
from memory_project.models import AuditEvent, User
from tests.fake_rest_api import Api
from tests.mcp_client import as_caller

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_analysis_from_ingest_to_clear(api: Api, alice: Caller) -> None:
    api.fill(312)

    async def action(client: Any) -> list[Any]:
        async def call(tool: str, **arguments: Any) -> Any:
            return await client.call_tool(tool, {"analysis_id": "library-audit-2026-05", **arguments})

        fields = ["id", "title", "author_name", "status", "rating", "updated_at"]
        return [
            await call("analysis_ingest", model="book", ingest_all=True, per_page=50, fields=fields),
            await call("analysis_query", mode="describe"),
            await call("analysis_query", mode="aggregate", group_by="status"),
            await call("analysis_query", mode="filter", where={"status": "completed", "rating": {"$lt": 2}}, limit=20),
            await call("analysis_query", mode="sample", sample_size=9, stratify_by="status"),
            await call(
                "analysis_store",
                findings=[
                    {
                        "finding": "12 completed books rated 1: outliers",
                        "category": "quality_issue",
                        "metadata": {"count": 12},
                    },
                    {"finding": "Reading is stalled for one author", "category": "pattern"},
                ],
            ),
            await call("analysis_query", mode="semantic", query="issues with rating or quality", top_k=20),
            await call("analysis_clear"),
        ]

    results = as_caller(alice, action)
    assert not [result for result in results if result.is_error]
    texts = [result.content[0].text for result in results]
    assert texts[0].startswith("Stored 312 record(s) (6 fields per record) across 7 page(s).\nAnalysis: library-audit")
    assert "| rating |" in texts[1]
    assert texts[2].startswith('Distribution of "status" (312 total):\n  completed: 188 (60.3%)')
    assert results[3].structured_content["total"] > 20
    assert {row["status"] for row in json.loads(texts[4].split("\n", 1)[1])} == {"completed", "reading", "unread"}
    assert texts[5].startswith("Stored 2 analysis finding(s) (ephemeral (expires in 1 hour)).")
    assert "Categories: quality_issue, pattern" in texts[5]
    assert "## quality_issue (1)" in texts[6]
    assert '{"count": 12}' in texts[6]
    assert "## page_summary (7)" in texts[6]
    assert texts[7] == 'Cleared 312 ingested record(s) and 9 finding(s) for analysis "library-audit-2026-05".'
    assert results[0].meta["context"] == {"consumed": True}
    assert results[3].meta["context"]["lifecycle"] == "transient"
    assert AuditEvent.objects.filter(tool__startswith="analysis_", outcome="ok").count() == 8
    assert not Session.objects.exists()


def test_progress_is_reported_and_cancellation_stops_the_ingest(api: Api, alice: Caller) -> None:
    api.delay_s = 0.15
    reports: list[tuple[float, float | None, str | None]] = []

    async def on_progress(position: float, total: float | None, message: str | None) -> None:
        reports.append((position, total, message))

    async def main() -> None:
        async with Client(build_server(identify=lambda request: alice)) as client:
            arguments = {"analysis_id": "slow", "model": "book", "ingest_all": True, "per_page": 2}

            async def work() -> None:
                await client.call_tool("analysis_ingest", arguments, progress_callback=on_progress)  # type: ignore[arg-type]

            async with anyio.create_task_group() as group:
                group.start_soon(work)
                while len(reports) < 3:
                    await anyio.sleep(0.01)
                group.cancel_scope.cancel()
            await anyio.sleep(1.5)

    asyncio.run(main())
    assert reports[0][1:] == (60, "Ingested page 1/60 (2 records)")
    row = Ingest.objects.get()
    assert row.state == "partial"
    assert 3 <= len(row.pages_done) < 60
    request_count = len(api.requests)
    assert request_count < 40  # the ingest stopped after the cancellation
    again = ingest(alice, IngestRecords(analysis_id="slow", model="book", ingest_all=True, per_page=2, resume=True))
    assert again.resumed_from == len(row.pages_done) + 1


def test_the_tool_acts_with_the_token_of_its_dry_run(api: Api, alice: Caller) -> None:
    async def action(client: Any) -> list[Any]:
        base = {"analysis_id": "audit", "model": "book"}
        await client.call_tool("analysis_ingest", {**base, "ingest_all": True})
        change = {**base, "action": "update", "attributes": {"status": "unread"}}
        preview = await client.call_tool("analysis_act", {**change, "dry_run": True})
        refused = await client.call_tool("analysis_act", change)
        token = preview.structured_content["confirm"]
        return [preview, refused, await client.call_tool("analysis_act", {**change, "confirm": token})]

    preview, refused, response = as_caller(alice, action)
    assert (preview.structured_content["matched_count"], len(preview.structured_content["sample_ids"])) == (120, 10)
    assert set(preview.structured_content["ingestedAtRange"]) == {"earliest", "latest"}
    assert refused.is_error
    assert json.loads(refused.content[0].text)["code"] == "invalid"
    assert response.structured_content["summary"] == {"total": 120, "succeeded": 120, "failed": 0, "action": "update"}


def test_analyses_can_be_disabled(settings: Any) -> None:
    settings.ANALYSIS_ENABLED = False
    names = {tool.name for tool in enabled_tools(settings.MCP_TOOLSETS)}  # the default toolsets include analysis
    assert "memory_recall" in names
    assert "analysis_ingest" not in names | {tool.name for tool in enabled_tools(["all"])}
    with pytest.raises(ImproperlyConfigured, match="ANALYSIS_ENABLED"):
        enabled_tools(["analysis"])


# -- pages and exports -----------------------------------------------------------------------------------------------


def browser(user: User) -> Browser:
    client = Browser()
    client.force_login(user)
    return client


def test_the_pages_show_findings_and_actions_to_their_owner(
    api: Api, alice: Caller, alice_user: User, bob_user: User, ada_user: User, django_assert_max_num_queries: Any
) -> None:
    ingest(alice, IngestRecords(analysis_id="audit", model="book", ingest_all=True))
    findings.store(
        alice,
        StoreFindings(analysis_id="audit", findings=[{"finding": "Few books are unread.", "category": "x"}]),
    )
    action = Action.objects.create(owner=alice.email, analysis_id="audit", model="book", kind="delete")
    session = sessions.get_session(alice, "audit")
    owner_browser = browser(alice_user)
    assert "audit" in owner_browser.get(reverse("analyses")).content.decode()
    with django_assert_max_num_queries(26):  # two queries for each of the six distributions
        page = owner_browser.get(reverse("analysis", args=[session.pk])).content.decode()
    assert "Few books are unread." in page
    assert '<svg class="chart"' in page
    assert owner_browser.get(reverse("analysis-action", args=[action.pk])).status_code == 200
    for stranger in (bob_user, ada_user):
        client = browser(stranger)
        assert list(client.get(reverse("analyses")).context["page"].rows) == []
        assert client.get(reverse("analysis", args=[session.pk])).status_code == 404
        assert client.post(reverse("clear-analysis", args=[session.pk])).status_code == 404
    assert browser(bob_user).get(reverse("analysis-action", args=[action.pk])).status_code == 404
    owner_browser.post(reverse("clear-analysis", args=[session.pk]))
    assert not IngestedRecord.objects.exists()
    assert Action.objects.exists()


def test_a_finding_becomes_an_insight_with_its_provenance(alice: Caller, alice_user: User, bob_user: User) -> None:
    (row,), _ = findings.store(
        alice, StoreFindings(analysis_id="audit", findings=[{"finding": "Orders of May are counted twice."}])
    )
    page = reverse("propose") + f"?finding={row.pk.hex}"
    assert browser(bob_user).get(page).status_code == 404
    form = browser(alice_user).get(page).context["form"].initial
    browser(alice_user).post(page, {**form, "confidence": "medium", "visibility": "persona"})
    record = Insight.objects.get().record
    assert (record.content, record.source) == (row.finding, "agent_discovery")
    assert record.metadata["finding_id"] == row.pk.hex
    assert record.metadata["analysis_id"] == "audit"
    sessions.clear(alice, analysis_id="audit")
    assert not Finding.objects.exists()
    record.refresh_from_db()
    assert record.metadata["finding_id"] == row.pk.hex


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_only_its_owner_downloads_an_export(
    api: Api, alice: Caller, alice_user: User, bob_user: User, format: str
) -> None:
    api.books["0"]["title"] = "=HYPERLINK(1)"
    ingest(alice, IngestRecords(analysis_id="audit", model="book", ingest_all=True))

    async def action(client: Any) -> Any:
        return await client.call_tool(
            "analysis_export", {"analysis_id": "audit", "where": {"status": "completed"}, "format": format}
        )

    url = as_caller(alice, action).structured_content["url"]
    path = "/" + url.split("/", 3)[3]
    response = browser(alice_user).get(path)
    text = b"".join(response.streaming_content).decode()  # type: ignore[attr-defined]
    rows = (
        list(csv.DictReader(io.StringIO(text))) if format == "csv" else [json.loads(line) for line in text.splitlines()]
    )
    assert len(rows) == 72
    assert {row["status"] for row in rows} == {"completed"}
    if format == "csv":
        assert rows[0]["title"] == "'=HYPERLINK(1)"
    assert browser(bob_user).get(path).status_code == 404
    assert browser(alice_user).get(path[:-3] + "xxx").status_code == 400
    assert Browser().get(path).status_code == 302
    alice_user.memberships.all().delete()  # the personas that may read the source
    assert browser(alice_user).get(path).status_code == 403


# -- declarations ------------------------------------------------------------------------------------------------------

GOOD = 'base_url = "https://api.example/v1"\n[models.book]\nendpoint = "books"\n'


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("base_url = ", "shop"),
        ('base_url = "https://x"', "shop.models"),
        (GOOD.replace("https://api.example/v1", "ftp://x"), "shop"),
        (GOOD.replace("https://api", "https://user:pw@api"), "shop"),
        (GOOD.replace('"books"', '"//evil/books"'), "shop.models.book.endpoint"),
        (GOOD + 'colour = "red"', "shop.models.book.colour"),
        (GOOD.replace("models.book", 'models."a b"'), "shop"),
        (GOOD + "per_page_max = 0", "shop.models.book.per_page_max"),
        ('kind = "file"\n[models.book]\n', "shop"),
    ],
)
def test_an_error_names_the_invalid_field_of_a_declaration(text: str, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse("shop", text)
    assert caught.value.field == field


def test_the_admin_form_rejects_an_invalid_declaration(ada_user: User) -> None:
    client = browser(ada_user)
    add = reverse("admin:analysis_declaredsource_add")
    page = client.post(add, {"name": "shop", "declaration": "base_url = 1", "is_enabled": "on"})
    assert "shop.models" in page.content.decode()
    assert client.post(add, {"name": "shop", "declaration": GOOD, "is_enabled": "on"}).status_code == 302


def test_files_can_be_ingested(alice: Caller, settings: Any, tmp_path: Any) -> None:
    (tmp_path / "deals.csv").write_text("id,amount\n1,5\n2,N/A\n")
    (tmp_path / "notes.jsonl").write_text('{"id": "a", "n": 1}\n\n{"id": "b"}\n')
    (tmp_path / "sources.toml").write_text(
        'kind = "file"\nread_personas = ["sales"]\n'
        '[models.deal]\npath = "deals.csv"\n[models.note]\npath = "notes.jsonl"\n'
        '[models.secret]\npath = "../../etc/passwd"\n'
    )
    settings.ANALYSIS_FILES, settings.ANALYSIS_SOURCES = str(tmp_path), str(tmp_path / "sources.toml")
    assert ingest(alice, IngestRecords(analysis_id="f", model="deal", ingest_all=True, per_page=1)).records == 2
    assert ingest(alice, IngestRecords(analysis_id="f", model="note", ingest_all=True)).records == 2
    with pytest.raises(Exception, match="outside of ANALYSIS_FILES"):
        ingest(alice, IngestRecords.read({"analysis_id": "f", "model": "secret", "ingest_all": True}))


def test_a_hundred_thousand_records_are_ingested_in_two_calls(api: Api, alice: Caller) -> None:
    api.fill(100_000)
    calls = 0
    while True:
        response = ingest(
            alice,
            IngestRecords(analysis_id="big", model="book", ingest_all=True, per_page=1000, resume=calls > 0),
        )
        calls += 1
        if not response.capped:
            break
    assert (calls, IngestedRecord.objects.count()) == (2, 100_000)
