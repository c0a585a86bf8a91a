"""Wiping all data of a person: an agent requests it, the person confirms, and no table keeps anything."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, models
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from foundation.operations.errors import Forbidden, NotFound
from foundation.people.caller import ACT_FOR_USERS, WIPE, Caller
from foundation.people.columns import NOTHING, person_columns
from knowledge.insights.capture import capture
from knowledge.operations import Capture
from knowledge.review import clarifications, decisions
from memories import services
from memories.conversation import wipe
from memories.conversation.models import WipeRequest
from memories.models import MemoryRecord
from memories.operations import MarkFeedback, Remember, ReportMemories, Revise, Supersede
from memories.use import reports
from memories.writing import bulk_actions, feedback, hand_overs
from memory_project.models import AuditEvent, User
from tests.knowledge.changeset_examples import apply, change
from tests.mcp_client import as_caller
from tests.memories.conversation.conftest import LONG, call, store_turns

pytestmark = pytest.mark.django_db
ACCESS = {"memory_project_user", "users"}  # admins manage accounts


def tables_containing(text: str) -> set[str]:
    """Return the tables with a row that contains the text in any column."""
    names = set()
    for model in apps.get_models(include_auto_created=True):
        table = model._meta.db_table
        if model._meta.proxy or model is User or not model._meta.managed:
            continue
        with connection.cursor() as cursor:
            cursor.execute(f'SELECT count(*) FROM "{table}" t WHERE to_jsonb(t)::text ILIKE %s', [f"%{text}%"])  # noqa: S608
            if cursor.fetchone()[0]:
                names.add(table)
    return names


def create_data_everywhere(caller: Caller, colleague: Caller, admin: Caller) -> None:
    """Create data of the caller in as many tables as possible."""
    store_turns(caller, LONG, "ok")
    call(caller, "store_cache", query="who am I?", response=f"You are {caller.email}")
    call(caller, "check_cache", query="who am I?")
    call(caller, "store_decision", key="theme", value="dark")
    call(caller, "store_decision", key="theme", value="light")
    fact = services.remember(caller, Remember(content="Revenue of the wiped person excludes refunds.")).record
    services.supersede(caller, Supersede(record_id=fact.pk, content="Revenue of the wiped person includes refunds."))
    tills = services.remember(colleague, Remember(content="A colleague's fact about tills.")).record
    feedback.mark(caller, MarkFeedback(record_id=tills.pk, verdict="wrong", note="no"))
    reports.report(caller, ReportMemories(wrong=[tills.pk], note="no"))
    captured = capture(
        caller, Capture(category="correction", insight_text="An insight of the wiped person about orders.")
    )
    decisions.reject(admin, insight_id=captured.insight.pk, notes="no")
    edited = services.remember(colleague, Remember(content="Edited by the one who goes, an admin for a day.")).record
    services.revise(
        replace(caller, is_admin=True), Revise(record_id=edited.pk, content="Edited for the last time now.")
    )


def test_nothing_is_wiped_without_confirm(alice: Caller) -> None:
    store_turns(alice, LONG)
    response = call(alice, "wipe_user_data")
    assert response["error"] == "wipe_user_data requires confirm=true. This will permanently delete ALL user data."
    assert MemoryRecord.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_an_agent_requests_a_wipe_and_the_person_confirms(
    alice: Caller, bob: Caller, ada: Caller, alice_user: User
) -> None:
    create_data_everywhere(alice, bob, ada)

    async def action(client: Any) -> Any:
        return await client.call_tool("wipe_user_data", {"user_id": alice.email, "confirm": True})

    response = as_caller(alice, action, toolsets=["conversation"]).structured_content
    assert response["status"] == "waits_for_confirmation"
    assert response["counts"]["memory_records"] == MemoryRecord.objects.filter(created_by=alice.email).count()
    assert "memory_records" in tables_containing(alice.email)
    request = WipeRequest.objects.get()
    page = reverse("wipe", args=[request.pk])
    browser = Client()
    browser.force_login(User.objects.get(email=bob.email))
    assert browser.get(page).status_code == 404  # only the person may open the page
    browser.force_login(alice_user)
    assert "Nothing has been deleted yet" in browser.get(page).content.decode()
    assert "Type alice@example.org" in browser.post(page, {"email": "x"}).content.decode()
    assert MemoryRecord.objects.filter(created_by=alice.email).exists()
    assert "Your data has been deleted" in browser.post(page, {"email": alice.email}).content.decode()
    remaining = {event.tool for event in AuditEvent.objects.filter(email=alice.email)}
    assert remaining <= {"portal.wipe", "sign-in"}  # written by the page that confirmed the wipe
    AuditEvent.objects.filter(email=alice.email).delete()
    assert tables_containing(alice.email) == set()
    assert MemoryRecord.objects.filter(created_by=bob.email).count() == 2


def test_a_token_with_the_right_wipes_every_table_at_once(alice: Caller, bob: Caller, ada: Caller) -> None:
    create_data_everywhere(alice, bob, ada)
    AuditEvent.objects.create(
        email=alice.email, channel="mcp", tool="memory_recall", outcome="ok", duration_ms=1, arguments={"query": "x"}
    )
    response = call(replace(alice, rights=frozenset({WIPE})), "wipe_user_data", confirm=True)
    assert response["memories_deleted"] == 6
    assert (response["cache_deleted"], response["audit_deleted"]) == (1, 1)
    assert tables_containing(alice.email) == set()
    event = AuditEvent.objects.get(tool="memory_recall")
    assert (event.email, event.arguments) == ("", {"wiped": True})


@pytest.mark.usefixtures("small_catalog")
def test_applied_insights_are_kept_under_a_pseudonym(alice: Caller, cora: Caller, ada: Caller) -> None:
    apply(alice, cora, change("add_tag", detail="Training"))
    call(replace(alice, rights=frozenset({WIPE})), "wipe_user_data", confirm=True)
    record = MemoryRecord.objects.get()
    assert record.content.startswith("An insight about orders")
    assert record.created_by.startswith("wiped-")
    assert tables_containing(alice.email) == set()


@pytest.mark.usefixtures("small_catalog")
def test_a_wipe_of_a_curator_reaches_what_others_have(alice: Caller, bob: Caller, cora: Caller, ada: Caller) -> None:
    """Marks, hand-overs of reviews, overturned decisions, changes of the catalog, and names of conversations."""
    marked = services.remember(bob, Remember(content="Orders close at ten at night.")).record
    feedback.mark(cora, MarkFeedback(record_id=marked.pk, verdict="wrong", note="at nine"))
    services.revise(bob, Revise(record_id=marked.pk, tags=["orders"]))
    for number in range(2):
        text = f"Training stores are 9{number}01 to 9{number}20."
        insight = capture(alice, Capture(category="correction", insight_text=text)).insight
        clarifications.reassign(ada, insight_id=insight.pk, to=cora.email)
        clarifications.reassign(ada, insight_id=insight.pk, to=ada.email)
    clarifications.reassign(ada, insight_id=insight.pk, to=cora.email)
    bulk_actions.start(ada, act="hand_over", unit_ids=[insight.pk], choice=cora.email)
    decisions.approve(cora, insight_id=insight.pk, notes="")
    decisions.reject(ada, insight_id=insight.pk, notes="no", override=True)
    apply(alice, cora, change("add_tag", detail="Training"))
    for person in (cora, bob):
        store_turns(person, LONG, conversation="weekly")
    hand_overs.hand_over(ada, old=cora.email, new=bob.email)
    left = {"insights", "insight_decisions", "batches", "catalog_aspects", "memory_records", "memory_revisions"}
    assert left <= tables_containing(cora.email)
    call(replace(cora, rights=frozenset({WIPE})), "wipe_user_data", confirm=True)
    assert tables_containing(cora.email) == set()


def test_a_service_needs_the_right_to_wipe_a_user(service: Caller, alice: Caller) -> None:
    store_turns(service, LONG, user_id="user-1")
    store_turns(service, LONG, user_id="user-2")
    with pytest.raises(Forbidden, match="right `wipe`"):
        call(service, "wipe_user_data", user_id="user-1", confirm=True)
    wiper = replace(service, rights=frozenset({ACT_FOR_USERS, WIPE}))
    assert call(wiper, "wipe_user_data", user_id="user-1", confirm=True)["memories_deleted"] == 2
    owners = set(MemoryRecord.objects.values_list("created_by", flat=True))
    assert owners == {f"{service.email}#user-2"}


@pytest.mark.django_db(transaction=True)
def test_the_audit_event_of_a_wipe_does_not_name_the_person(alice: Caller) -> None:
    store_turns(alice, LONG)

    async def action(client: Any) -> Any:
        return await client.call_tool("wipe_user_data", {"user_id": alice.email, "confirm": True})

    as_caller(replace(alice, rights=frozenset({WIPE})), action, toolsets=["conversation"])
    event = AuditEvent.objects.get(tool="wipe_user_data")
    assert (event.email, event.arguments) == ("", {})
    assert "alice" not in json.dumps(list(AuditEvent.objects.values_list("message", flat=True)))


def test_the_wipe_covers_every_column_that_may_name_a_person() -> None:
    """Fails if a new table has an owner column that the wipe does not cover."""
    traced = {
        (model._meta.db_table, personal.column.split("__")[0])
        for model, personal in person_columns()
        if personal.on_wipe != NOTHING
    }
    traced |= {("memory_records", "created_by")}
    traced |= {
        (table, "owner")
        for table in (
            "memory_passages",
            "memory_feedback",
            "memory_reports",
            "memory_verifications",
            "insights",
            "caveat_waivers",
        )
    }  # copies of it
    names = {"created_by", "owner", "by", "to", "email", "person", "reviewed_by", "applied_by", "rolled_back_by"}
    names |= {"changed_by", "erased_by", "edit_by", "on_behalf_of", "user", "decided_by", "undone_by", "overturns"}
    untraced = {
        (model._meta.db_table, field.name)
        for model in apps.get_models()
        if model.__module__.split(".")[0] in ("foundation", "memories", "analysis", "knowledge", "memory_project")
        and not model._meta.proxy
        for field in model._meta.concrete_fields
        if field.name in names and isinstance(field, models.CharField | models.ForeignKey)
    } - traced
    # An account and what gives access to it: these go with the account, not with the data.
    access = {"persona_memberships", "memories_personamembership", "memory_project_apitoken", "memory_project_user"}
    access |= {"company_identities", "service_accounts", "connected_apps"}
    assert {pair for pair in untraced if pair[0] not in access} <= {("memory_project_auditevent", "email")}


def test_a_wipe_removes_the_name_of_a_former_owner(alice: Caller, bob: Caller, ada: Caller) -> None:
    record = services.remember(alice, Remember(content="Orders close at ten at night.")).record
    hand_overs.hand_over(ada, old=alice.email, new=bob.email)
    call(replace(alice, rights=frozenset({WIPE})), "wipe_user_data", confirm=True)
    record.refresh_from_db()
    assert record.metadata["legacy_created_by"].startswith("wiped-")
    assert tables_containing(alice.email) == set()


def test_a_wipe_removes_the_name_of_a_former_editor(alice: Caller, ada: Caller) -> None:
    record = services.remember(alice, Remember(content="Orders close at ten at night.")).record
    corrected = services.supersede(ada, Supersede(record_id=record.pk, content="Orders close at nine at night.")).record
    services.revise(alice, Revise(record_id=corrected.pk, metadata={"ticket": "A-1"}))
    call(replace(ada, rights=frozenset({WIPE})), "wipe_user_data", confirm=True)
    assert tables_containing(ada.email) == set()


def test_a_request_that_has_expired_is_not_carried_out(alice: Caller) -> None:
    store_turns(alice, LONG)
    call(alice, "wipe_user_data", confirm=True)
    WipeRequest.objects.update(expires_at=timezone.now())
    with pytest.raises(NotFound, match="has expired"):
        wipe.confirm(alice, request_id=WipeRequest.objects.get().pk)
    assert MemoryRecord.objects.filter(created_by=alice.email).count() == 2
