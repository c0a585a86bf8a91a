"""Lists and row pages of the admin: columns, saved filters, counts, actions, history, tests of forms, and schedules."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin import site
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import Model
from django.test import RequestFactory
from django.urls import reverse
from django.utils import timezone
from django_q.models import Schedule

from analysis import source_health, sources
from analysis.models import DeclaredSource
from analysis.sources.envelopes import PageOf
from foundation.operations.errors import Conflict, Forbidden, Invalid
from foundation.people.caller import Caller
from foundation.people.models import Persona
from foundation.people.permissions import build_caller
from memories import services
from memories.admin import lists
from memories.admin.base import ExportsList
from memories.admin.lists import CHOOSE_COLUMNS
from memories.admin.rows import TEST
from memories.models import Batch, MemoryRecord
from memories.operations import Remember, Revise, Supersede
from memory_project import schedules
from memory_project.accounts import people
from memory_project.accounts.preferences import services as preferences
from memory_project.accounts.preferences.models import Preference
from memory_project.admin.tables import TITLES
from memory_project.models import User, Webhook
from memory_project.notifications import chat_channel
from memory_project.receivers import grant_operator_permissions
from tests.conftest import person
from tests.pages import browser

pytestmark = pytest.mark.django_db
MEMORIES = "admin:memories_memoryrecord_changelist"


@pytest.fixture
def otto_user(personas: dict[str, Persona]) -> User:
    """An operator without admin rights."""
    grant_operator_permissions(None)
    user = person("otto@example.org", personas["supply"], is_staff=True)
    people.give_rights(user, ["operator"])
    return User.objects.get(pk=user.pk)


@pytest.fixture
def otto(otto_user: User) -> Caller:
    return build_caller(otto_user, channel="test")


def text(response: Any) -> str:
    return " ".join(response.content.decode().split())


def row_page(row: Model) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])


# -- all tables -----------------------------------------------------------------------------------------------


def test_every_table_has_a_title_below_a_heading_and_can_be_exported() -> None:
    labels = {model._meta.label_lower for model in site._registry}
    assert labels == set(TITLES)
    assert [kind for kind, table in site._registry.items() if not isinstance(table, ExportsList)] == []


def test_no_column_is_hidden_by_a_field_of_the_same_name(ada_user: User) -> None:
    """Django shows the field instead of the method, so the column would be wrong."""
    request = RequestFactory().get("/")
    request.user = ada_user
    hidden = [
        (table, name)
        for kind, table in site._registry.items()
        for name in [*table.get_list_display(request), *table.get_readonly_fields(request)]
        if isinstance(name, str)
        and hasattr(type(table), name)
        and name in {field.name for field in kind._meta.get_fields()}
    ]
    assert hidden == []


def test_the_tables_stand_below_our_own_headings(ada_user: User) -> None:
    page = text(browser(ada_user).get(reverse("admin:tables")))
    assert "Authentication and Authorization" not in page
    for title in ("People and access", "Catalog entities", "Roles", "Schedules"):
        assert title in page


# -- lists ----------------------------------------------------------------------------------------------------


def test_the_list_shows_the_owner_by_name(ada_user: User, alice_user: User, fact: MemoryRecord) -> None:
    User.objects.filter(pk=alice_user.pk).update(name="Alice Liddell")
    page = text(browser(ada_user).get(reverse(MEMORIES)))
    assert f'<span title="{alice_user.email}">Alice Liddell</span>' in page


def test_people_choose_their_own_columns(ada_user: User, bob_user: User, fact: MemoryRecord) -> None:
    client, address = browser(ada_user), f"{reverse(MEMORIES)}?status__exact=active"
    assert "column-tags" not in text(client.get(address))
    chosen = {CHOOSE_COLUMNS: "save", "column": ["fact", "tags", "search", "no such column"]}
    assert client.post(address, chosen)["Location"] == address
    page = text(client.get(address))
    assert ("column-fact" in page, "column-tags" in page, "column-owner" in page) == (True, True, False)
    assert Preference.objects.get().value == ["fact", "tags"]
    assert "Choose at least one column" in text(client.post(address, {CHOOSE_COLUMNS: "save"}, follow=True))
    User.objects.filter(pk=bob_user.pk).update(is_staff=True, is_superuser=True)
    assert "column-tags" not in text(browser(User.objects.get(pk=bob_user.pk)).get(address))
    client.post(address, {CHOOSE_COLUMNS: "reset"})
    assert "column-tags" not in text(client.get(address))


def test_a_dropped_column_does_not_break_a_list(ada: Caller, ada_user: User, fact: MemoryRecord) -> None:
    preferences.save(ada, key="columns memories.memoryrecord", value=["gone", "tags"])
    assert "column-tags" in text(browser(ada_user).get(reverse(MEMORIES)))
    preferences.save(ada, key="columns memories.memoryrecord", value={"odd": 1})
    assert "column-fact" in text(browser(ada_user).get(reverse(MEMORIES)))
    with pytest.raises(Invalid):
        preferences.save(ada, key="x", value="y" * 5_000)


def test_secrets_are_no_columns(ada_user: User) -> None:
    request = RequestFactory().get("/")
    request.user = ada_user
    offered = {
        (kind, name)
        for kind, table in site._registry.items()
        if isinstance(table, ExportsList)
        for name in table.offered_columns(request)
    }
    assert offered
    assert [entry for entry in offered if entry[1] in ExportsList.never_exported] == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [("", True), ("created_at__year=2020", False), ("created_at__year=9999", None), ("created_at__year=x", None)],
)
def test_dates_narrow_a_list_without_a_query_for_each(
    ada_user: User, fact: MemoryRecord, query: str, expected: bool | None
) -> None:
    response = browser(ada_user).get(f"{reverse(MEMORIES)}?{query}")
    if expected is None:
        assert response.status_code == 302  # the list says that the filter is invalid
        return
    assert (fact.content in text(response)) == expected
    assert 'class="dates"' in text(response)


def test_dates_lead_from_years_to_days(ada_user: User, fact: MemoryRecord) -> None:
    MemoryRecord.objects.filter(pk=fact.pk).update(created_at=timezone.now() - timedelta(days=800))
    now = timezone.localtime()
    client, address = browser(ada_user), reverse(MEMORIES)
    assert f"created_at__year={now.year - 2}" in text(client.get(address))
    assert "created_at__month=1" in text(client.get(f"{address}?created_at__year={now.year}"))
    days = text(client.get(f"{address}?created_at__year={now.year - 1}&created_at__month=2"))
    assert ("created_at__day=28" in days, "created_at__day=31" in days) == (True, False)


def test_an_estimated_count_says_so(ada_user: User, alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        services.remember(alice, Remember(content=f"Fact number {number} of a few."))
    client = browser(ada_user)
    assert "3 rows" in text(client.get(reverse(MEMORIES)))
    monkeypatch.setattr(lists.EstimatedPaginator, "max_count", 2)
    monkeypatch.setattr(lists, "planned_rows", lambda rows: 203_417)
    page = text(client.get(reverse(MEMORIES)))
    assert "about 203,000 rows" in page
    assert "Select all matching rows, about 203,000" in page


@pytest.mark.parametrize("most", [1, 1_000])
def test_a_search_finds_the_same_whether_it_remembers_its_rows_or_not(
    ada_user: User, alice: Caller, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(lists, "MAX_FOUND", most)
    for text_ in ("Tills close at ten.", "The TILL drawer is short.", "Orders ship at noon."):
        services.remember(alice, Remember(content=text_))
    client = browser(ada_user)
    page = text(client.get(reverse(MEMORIES), {"q": "till"}))
    assert ("2 rows" in page, "drawer" in page, "noon" in page) == (True, True, False)
    page = text(client.get(reverse(MEMORIES), {"q": "till", "created_by": "bob@example.org"}))
    assert ("drawer" in page, "0 rows" in page) == (False, True)


def test_the_list_needs_as_many_queries_for_more_rows(
    ada_user: User, alice: Caller, django_assert_max_num_queries: Any
) -> None:
    for number in range(12):
        services.remember(alice, Remember(content=f"Fact number {number} of a few."))
    client = browser(ada_user)
    client.get(reverse(MEMORIES))
    with django_assert_max_num_queries(12):
        client.get(reverse(MEMORIES))


def test_filters_of_every_list_are_saved_for_the_person(ada_user: User, fact: MemoryRecord) -> None:
    client, page = browser(ada_user), "admin:knowledge_catalogentity_changelist"
    back = f"{reverse(page)}?entity_type=dataset"
    client.post(reverse("save-view"), {"name": "Data sets", "page": page, "back_to": back})
    assert '<a href="?entity_type=dataset" class="own">Data sets</a>' in text(client.get(reverse(page)))
    assert 'class="own"' not in text(client.get(reverse(MEMORIES)))


def test_more_rows_than_were_confirmed_are_confirmed_again(ada_user: User, alice: Caller, fact: MemoryRecord) -> None:
    client, address = browser(ada_user), reverse(MEMORIES)
    form = {"action": "forget", ACTION_CHECKBOX_NAME: [str(fact.pk)], "select_across": "1"}
    assert 'name="expected" value="1"' in text(client.post(address, form))
    services.remember(alice, Remember(content="A fact that came in between."))
    question = client.post(address, {**form, "confirm": "1", "expected": "1"})
    assert (question.status_code, "2 rows match by now, and not 1" in text(question)) == (400, True)
    assert not Batch.objects.exists()
    client.post(address, {**form, "confirm": "1", "expected": "2"})
    assert len(Batch.objects.get().unit_ids) == 2


# -- pages of rows --------------------------------------------------------------------------------------------


def test_a_row_offers_the_actions_that_apply(ada_user: User, alice: Caller, fact: MemoryRecord) -> None:
    client = browser(ada_user)
    page = text(client.get(row_page(fact)))
    assert ('value="forget"' in page, 'value="restore"' in page) == (True, False)
    question = client.post(row_page(fact), {"action": "forget"})
    assert "Forget: 1" in text(question)
    response = client.post(row_page(fact), {"action": "forget", "confirm": "1", "reason": "no longer"})
    assert response["Location"] == reverse("batch", args=[Batch.objects.get().pk])
    assert Batch.objects.get().back_to == row_page(fact)
    page = text(client.get(row_page(fact)))
    assert ('value="forget"' in page, 'value="restore"' in page, "no longer" in page) == (False, True, True)


def test_an_action_on_a_page_concerns_its_row_alone(ada_user: User, alice: Caller, fact: MemoryRecord) -> None:
    other = services.remember(alice, Remember(content="Orders come twice a day.")).record
    form = {"action": "forget", ACTION_CHECKBOX_NAME: [str(other.pk)], "select_across": "1", "confirm": "1"}
    client = browser(ada_user)
    client.post(row_page(fact), form)
    other.refresh_from_db()
    assert (other.status, Batch.objects.get().unit_ids) == ("active", [fact.pk])
    assert client.post(row_page(fact), {"action": "delete_selected"}).status_code == 403


def test_staff_without_rights_get_no_actions_of_curators(bob_user: User, fact: MemoryRecord) -> None:
    User.objects.filter(pk=bob_user.pk).update(is_staff=True)
    client = browser(User.objects.get(pk=bob_user.pk))
    assert client.post(row_page(fact), {"action": "forget", "confirm": "1"}).status_code == 403
    fact.refresh_from_db()
    assert fact.status == "active"


def test_the_history_says_who_when_why_and_what(ada_user: User, alice: Caller, fact: MemoryRecord) -> None:
    correction = Supersede(record_id=fact.pk, content="Revenue in the sales mart includes refunds.", reason="measured")
    new = services.supersede(alice, correction).record
    page = text(browser(ada_user).get(row_page(new)))
    history = page.partition('id="history"')[2]
    assert '<del><span class="sr">removed </span>excludes</del>' in history
    assert '<ins><span class="sr">added </span>includes</ins>' in history
    for part in ("Corrected", "measured", "alice@example.org"):
        assert part in history
    assert browser(ada_user).get(f"{row_page(new)[:-7]}history/")["Location"].endswith("#history")


def test_the_portal_leads_to_the_admin_and_back(ada_user: User, alice_user: User, fact: MemoryRecord) -> None:
    in_portal = reverse("memory", args=[fact.pk])
    assert row_page(fact) in text(browser(ada_user).get(in_portal))
    assert in_portal in text(browser(ada_user).get(row_page(fact)))
    assert row_page(fact) not in text(browser(alice_user).get(in_portal))


def test_the_page_of_a_row_needs_as_many_queries_for_more_history(
    ada_user: User, alice: Caller, fact: MemoryRecord, django_assert_max_num_queries: Any
) -> None:
    for number in range(6):
        text_now = f"Revenue in the sales mart excludes refunds, version {number}."
        services.revise(alice, Revise(record_id=fact.pk, content=text_now))
    client = browser(ada_user)
    client.get(row_page(fact))
    with django_assert_max_num_queries(18):
        client.get(row_page(fact))


# -- forms ----------------------------------------------------------------------------------------------------


def test_a_source_is_tested_before_it_is_saved(otto_user: User, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.ANALYSIS_PRIVATE_HOSTS = []
    client, add = browser(otto_user), reverse("admin:analysis_declaredsource_add")
    declaration = 'base_url = "http://127.0.0.1:1"\n[models.people]\nendpoint = "people"\n'
    form = {"name": "crm", "declaration": declaration, "is_enabled": "on", TEST: "1"}
    page = text(client.post(add, form))
    assert ("Test failed" in page, "no public address" in page) == (True, True)
    assert "[models.people]" in page  # what was entered stays
    monkeypatch.setattr(source_health, "_first_page", lambda caller, model: PageOf([{"id": 7, "name": "<b>Ann</b>"}]))
    page = text(client.post(add, form))
    assert ("Test succeeded" in page, "id = 7, name = &lt;b&gt;Ann&lt;/b&gt;" in page) == (True, True)
    secret = declaration.replace("[models", 'read_personas = ["sales"]\n[models')
    page = text(client.post(add, {**form, "declaration": secret}))
    assert ("people: id, name" in page, "Ann" in page) == (True, False)
    assert not DeclaredSource.objects.exists()


def test_a_test_ends_though_the_source_keeps_sending(otto: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        closed = False

        def page(self, *args: Any) -> Any:
            import time

            while not Slow.closed:
                time.sleep(0.01)

        def close(self) -> None:
            Slow.closed = True

    monkeypatch.setattr(source_health, "TIME_LIMIT_S", 0.05)
    monkeypatch.setattr(sources, "open_upstream", lambda caller, model: Slow())
    text = 'base_url = "https://crm.example"\n[models.people]\nendpoint = "people"\n'
    assert "did not answer within 0.05 s" in source_health.try_declaration(otto, name="crm", text=text).error
    assert Slow.closed


def test_only_operators_test_sources_and_webhooks(alice: Caller, personas: dict[str, Persona]) -> None:
    with pytest.raises(Forbidden):
        source_health.try_declaration(alice, name="crm", text="")
    with pytest.raises(Forbidden):
        chat_channel.try_out(alice, persona=personas["sales"], url="https://hooks.example/x")


def test_the_address_of_a_webhook_is_written_only(
    settings: Any, otto_user: User, personas: dict[str, Persona], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WEBHOOK_HOSTS = ["hooks.example"]
    sent: list[str] = []

    def post(url: str, body: dict[str, str]) -> str:
        sent.append(url)
        return ""

    monkeypatch.setattr(chat_channel, "post", post)
    client = browser(otto_user)
    form = {"persona": personas["sales"].pk, "url": "https://hooks.example/secret", "is_on": "on"}
    page = text(client.post(reverse("admin:memory_project_webhook_add"), {**form, TEST: "1"}))
    assert ("Test succeeded" in page, "/secret" in page, Webhook.objects.exists()) == (True, False, False)
    client.post(reverse("admin:memory_project_webhook_add"), form)
    webhook = Webhook.objects.get()
    address = row_page(webhook)
    assert "/secret" not in text(client.get(address))
    assert "/secret" not in text(client.get(reverse("admin:system")))
    client.post(address, {"url": "", TEST: "1", "is_on": "on"})
    assert sent == ["https://hooks.example/secret"] * 2
    client.post(address, {"url": ""})
    webhook.refresh_from_db()
    assert (webhook.url, webhook.is_on) == ("https://hooks.example/secret", False)  # empty keeps it
    refused = text(client.post(address, {"url": "https://evil.example/typed-secret", "is_on": "on"}))
    assert ("is not an allowed host" in refused, "typed-secret" in refused) == (True, False)
    client.post(address, {"url": "", "forget_url": "on", "is_on": "on"})
    webhook.refresh_from_db()
    assert (webhook.url, webhook.is_on) == ("", False)
    assert "Enter the URL" in text(client.post(address, {"url": "", "is_on": "on"}))


def test_a_persona_shows_the_tools_of_its_agents(ada_user: User, personas: dict[str, Persona]) -> None:
    address = row_page(personas["sales"])
    form = {
        "title": "Sales", "description": "", "tools_allow": "memory_recall,memory_manage", "tools_deny": "*.erase",
        "memory_context": "on", "memberships-TOTAL_FORMS": 0, "memberships-INITIAL_FORMS": 0, TEST: "1",
    }  # fmt: skip
    page = text(browser(ada_user).post(address, form))
    answer = page.partition("test-answer")[2].partition("</ul>")[0]
    assert ("memory_recall" in answer, "erase" in answer, "memory_store" in answer) == (True, False, False)
    assert Persona.objects.get(name="sales").tools_allow == ["*"]


def test_operators_change_schedules_and_an_upgrade_keeps_it(otto: Caller, otto_user: User, ada: Caller) -> None:
    schedules.update_schedules()  # as after each migration
    row = Schedule.objects.get(name="send webhooks")
    client, address = browser(otto_user), row_page(row)
    preview = text(client.post(address, {"minutes": "90", TEST: "1"}))
    assert preview.partition("test-answer")[2].partition("</ul>")[0].count("<li>") == 5
    assert Schedule.objects.get(pk=row.pk).minutes == 60
    client.post(address, {"minutes": "90", "is_paused": "on"})
    schedules.update_schedules()  # as after each migration
    row.refresh_from_db()
    assert (row.minutes, row.repeats) == (90, schedules.PAUSED)
    with pytest.raises(Conflict):
        schedules.run_soon(otto, name=row.name)
    assert "greater than or equal to 1" in text(client.post(address, {"minutes": "0"}))
    schedules.change_schedule(otto, name=row.name, minutes=60, is_paused=False)
    schedules.update_schedules()  # as after each migration
    row.refresh_from_db()
    assert (row.minutes, row.repeats) == (60, schedules.FOREVER)
    client.post(address, {"action": "run_now"})
    assert Schedule.objects.get(pk=row.pk).next_run <= timezone.now()


def test_only_known_schedules_are_changed_and_only_by_operators(
    otto: Caller, otto_user: User, alice: Caller, cora_user: User
) -> None:
    own = Schedule.objects.create(name="an operator's own", func="site_tasks.report", schedule_type="I", minutes=7)
    assert browser(otto_user).post(row_page(own), {"minutes": "90"}).status_code == 403
    assert browser(cora_user).get(row_page(own)).status_code == 403
    with pytest.raises(Forbidden):
        schedules.change_schedule(alice, name="send webhooks", minutes=5, is_paused=False)
    for minutes in (0, 50_000):
        with pytest.raises(Invalid):
            schedules.change_schedule(otto, name="send webhooks", minutes=minutes, is_paused=False)


# -- people ---------------------------------------------------------------------------------------------------


def test_a_refused_invitation_keeps_what_was_entered(ada_user: User, personas: dict[str, Persona]) -> None:
    form = {"email": "not an address", "name": "Ann <b>", "personas": ["supply"], "rights": ["curator"]}
    response = browser(ada_user).post(reverse("admin:invite"), form)
    page = text(response)
    assert (response.status_code, "is not an e-mail address" in page) == (400, True)
    for part in (
        'value="not an address"',
        'value="Ann &lt;b&gt;"',
        'value="supply" checked',
        'value="curator" checked',
    ):
        assert part in page


def test_a_hand_over_is_confirmed_and_not_repeated(
    ada: Caller, ada_user: User, alice_user: User, bob_user: User, fact: MemoryRecord
) -> None:
    client, address = browser(ada_user), reverse("admin:person-act", args=[alice_user.pk, "hand-over"])
    page = text(client.post(address, {"to": bob_user.email}, follow=True))
    alice_user.refresh_from_db()
    assert ("tick the box" in page, alice_user.is_active) == (True, True)
    for _ in range(2):
        client.post(address, {"to": bob_user.email, "confirm": "yes"})
    page = text(client.get(reverse("admin:person", args=[alice_user.pk])))
    assert page.count("Undo the hand-over") == 1
    fact.refresh_from_db()
    assert fact.created_by == bob_user.email


def test_the_undo_enables_only_an_account_that_the_hand_over_has_disabled(
    ada: Caller, alice_user: User, bob_user: User, fact: MemoryRecord
) -> None:
    people.deactivate(ada, person=alice_user)
    moved = people.offboard(ada, person=alice_user, to=bob_user.email)
    people.undo_offboarding(ada, person=alice_user, hand_over_id=moved.pk)
    assert not User.objects.get(pk=alice_user.pk).is_active
    people.activate(ada, person=alice_user)
    moved = people.offboard(ada, person=alice_user, to=bob_user.email)
    people.activate(ada, person=alice_user)
    people.deactivate(ada, person=alice_user)
    people.undo_offboarding(ada, person=alice_user, hand_over_id=moved.pk)
    assert not User.objects.get(pk=alice_user.pk).is_active  # it was disabled again for another reason
