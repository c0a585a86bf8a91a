"""The doors to checks: REST, the portal's pages and the audit log, each with an outsider."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from analysis.mcp_tools import query_sql
from analysis.models import CheckState, DeclaredSource, MemoryCheck
from foundation.people.caller import Caller
from knowledge.insights.capture import capture
from knowledge.operations import Capture
from memories import services
from memories.mcp_tools import memory_manage
from memories.models import MemoryRecord
from memories.operations import Remember, Share
from memory_project import audit
from memory_project.models import User
from tests.pages import browser
from tests.queued_tasks import run_queued_tasks
from tests.rest_client import client

pytestmark = pytest.mark.django_db
CLAIM = "The orders of the shop number exactly five hundred."
COUNT = {"sql": "SELECT count(*) FROM sales.orders", "expects": "equals", "value": 500}


@pytest.fixture
def checked(alice: Caller, warehouse: DeclaredSource) -> MemoryRecord:
    return services.remember(alice, Remember(content=CLAIM, check=COUNT)).record


def send(sender: Client, method: str, address: str, body: dict[str, Any] | None = None) -> Any:
    return getattr(sender, method)(address, json.dumps(body or {}), content_type="application/json")


def test_rest_lists_adds_changes_runs_and_removes_checks(
    alice_user: User, bob_user: User, olga_user: User, alice: Caller, fact: MemoryRecord, warehouse: DeclaredSource
) -> None:
    own, colleague, outsider = map(client, (alice_user, bob_user, olga_user))
    address = f"/api/v1/memories/{fact.pk.hex}/checks/"
    created = send(own, "post", address, {**COUNT, "source": "shop"})
    assert (created.status_code, created.json()["state"]) == (201, "passed")
    one = f"{address}{created.json()['id']}/"
    assert send(own, "patch", one, {"value": 7}).json()["results"][0]["returned"] == "500"
    assert send(own, "post", f"{one}run/").json()["state"] == "failed"
    assert colleague.get(one).json()["sql"] == COUNT["sql"]
    assert send(own, "post", address, {**COUNT, "sql": "DROP TABLE x"}).status_code == 400
    for method, place, body in (
        ("post", address, COUNT), ("patch", one, {"value": 1}), ("delete", one, None), ("post", f"{one}run/", None),
    ):  # fmt: skip
        assert send(colleague, method, place, body).status_code == 403
        assert send(outsider, method, place, body).status_code == 404
    assert outsider.get(address).status_code == outsider.get(one).status_code == 404

    services.share(alice, Share(record_id=fact.pk, visibility="everyone"))
    seen = outsider.get(address).json()["checks"][0]
    assert (seen["state"], "sql" in seen, "value" in seen, "returned" in seen["results"][0]) == (
        "failed", False, False, False,
    )  # fmt: skip
    assert send(own, "delete", one).status_code == 200
    assert own.get(address).json() == {"checks": []}


def test_the_form_shows_rows_before_it_saves(
    alice_user: User, bob_user: User, olga_user: User, fact: MemoryRecord, warehouse: DeclaredSource
) -> None:
    own, address = browser(alice_user), reverse("add-check", args=[fact.pk])
    assert browser(bob_user).get(address).status_code == 403
    assert browser(olga_user).get(address).status_code == 404
    values = {"source": "shop", "sql": "SELECT id FROM sales.orders ORDER BY id", "expects": "not_empty"}
    page = own.post(address, {**values, "run": "1"}).content.decode()
    assert page.count("<td>") == 20
    assert "There are more rows." in page
    refused = own.post(address, {**values, "expects": "between", "low": "9", "high": "2", "save": "1"})
    assert "is less than low" in refused.content.decode()
    assert not MemoryCheck.objects.exists()
    assert own.post(address, {**values, "save": "1"}).status_code == 302
    check = MemoryCheck.objects.get()
    page = own.get(reverse("memory", args=[fact.pk])).content.decode()
    assert "SELECT id FROM sales.orders" in page
    change = reverse("edit-check", args=[fact.pk, check.pk])
    assert own.post(change, {**values, "expects": "empty", "save": "1"}).status_code == 302
    run, remove = (reverse("change-check", args=[fact.pk, check.pk, act]) for act in ("run", "remove"))
    browser(bob_user).post(run)
    browser(bob_user).post(remove)
    check.refresh_from_db()
    assert (check.state, len(check.runs)) == (CheckState.FAILED, 1)
    own.post(run)
    check.refresh_from_db()
    assert len(check.runs) == 2
    own.post(remove)
    assert not MemoryCheck.objects.exists()


def test_a_reader_without_the_source_sees_the_result_but_no_values(
    alice: Caller, olga_user: User, checked: MemoryRecord
) -> None:
    services.share(alice, Share(record_id=checked.pk, visibility="everyone"))
    page = browser(olga_user).get(reverse("memory", args=[checked.pk])).content.decode()
    assert "Passed" in page
    assert "sales.orders" not in page
    checks = page.partition('id="checks"')[2].partition("</section>")[0]
    assert not re.search(r"\b500\b", checks)  # whole numbers: the microseconds of a time may contain it


def test_opening_an_insight_runs_its_old_checks_in_a_worker(
    alice: Caller,
    ada_user: User,
    olga_user: User,
    warehouse: DeclaredSource,
    django_capture_on_commit_callbacks: Any,
) -> None:
    insight = capture(alice, Capture(insight_text=CLAIM, category="business_context", check=COUNT)).insight
    curator, address = browser(ada_user), reverse("review-one", args=[insight.pk])
    assert "Checks of the claim" in curator.get(address).content.decode()
    assert not run_queued_tasks("analysis.tasks.run_checks_of")  # the result is of a moment ago
    MemoryCheck.objects.update(checked_at="2026-01-01T00:00:00Z")
    with django_capture_on_commit_callbacks(execute=True):
        curator.get(address)
        curator.get(address)
    assert run_queued_tasks("analysis.tasks.run_checks_of") == ["1 passed"]
    run = reverse("review-checks", args=[insight.pk])
    assert browser(olga_user).post(run).status_code in (403, 404)
    with django_capture_on_commit_callbacks(execute=True):
        curator.post(run)
    assert run_queued_tasks("analysis.tasks.run_checks_of") == ["1 passed"]


def test_a_check_may_name_the_query_that_was_just_run(
    alice: Caller, bob: Caller, fact: MemoryRecord, warehouse: DeclaredSource
) -> None:
    def query(sql: str) -> None:
        arguments = {"sql": sql}
        answer = query_sql(alice, **arguments)
        audit.record(
            alice, tool="query_sql", outcome="ok", duration_ms=1, arguments=arguments, answer=answer,
            request_chars=1, response_chars=1,
        )  # fmt: skip

    query(str(COUNT["sql"]))
    check = {"call": "last", "expects": "equals", "value": 500}
    memory_manage(alice, "update", id=fact.pk.hex, check=check)
    assert MemoryCheck.objects.get().sql == COUNT["sql"]
    query("SELECT count(*) FROM sales.orders -- ".ljust(300, "x"))
    for caller in (alice, bob):  # too long to be kept, and a call of somebody else
        with pytest.raises(Exception, match="no such call"):
            memory_manage(caller, "remember", content="Another fact of the shop.", check=check)
