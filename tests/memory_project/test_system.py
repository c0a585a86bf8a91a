"""The System page of operators: source checks, webhooks and permissions. Also undoing an offboarding."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.urls import reverse

from analysis import source_health
from analysis.models import DeclaredSource, SourceCheck
from foundation.operations.errors import Conflict, Forbidden
from foundation.people.caller import Caller
from foundation.people.models import Persona
from foundation.people.permissions import build_caller
from memories import services
from memories.models import MemoryRecord
from memories.operations import Remember
from memory_project.accounts import people, tokens
from memory_project.models import User, Webhook
from memory_project.receivers import grant_operator_permissions
from tests.analysis.conftest import warehouse
from tests.conftest import person
from tests.pages import browser

__all__ = ["warehouse"]

pytestmark = pytest.mark.django_db
SOURCE = """
kind = "file"
[models.book]
path = "books.jsonl"
"""


@pytest.fixture
def otto_user(personas: dict[str, Persona]) -> User:
    """An operator without admin rights."""
    grant_operator_permissions(None)
    user = person("otto@example.org", personas["supply"], is_staff=True)
    people.give_rights(user, ["operator"])
    return User.objects.get(pk=user.pk)


@pytest.fixture
def books(settings: Any, tmp_path: Any) -> DeclaredSource:
    settings.ANALYSIS_FILES = tmp_path
    return DeclaredSource.objects.create(name="library", declaration=SOURCE)


def test_a_source_is_tested_and_shows_its_last_success_and_error(
    otto_user: User, books: DeclaredSource, tmp_path: Any
) -> None:
    client = browser(otto_user)
    page = " ".join(client.get(reverse("admin:connected-systems")).content.decode().split())
    assert ("library" in page, "never reached" in page) == (True, True)
    test = {"kind": "source", "name": "library"}
    response = client.post(reverse("admin:system-test"), test, follow=True).content.decode()
    check = SourceCheck.objects.get()
    assert check.error
    assert (check.succeeded_at, check.failed_at is not None) == (None, True)
    assert check.error[:20] in response
    (tmp_path / "books.jsonl").write_text('{"id": 1, "title": "A"}\n')
    assert "the test succeeded" in client.post(reverse("admin:system-test"), test, follow=True).content.decode()
    check.refresh_from_db()
    assert (check.error, check.succeeded_at is not None) == ("", True)
    missing = client.post(reverse("admin:system-test"), {"kind": "source", "name": "none"}, follow=True)
    assert "there is no source" in missing.content.decode()


def test_a_warehouse_is_listed_and_tested_like_a_source(otto_user: User, warehouse: DeclaredSource) -> None:
    client = browser(otto_user)
    address, test = reverse("admin:system-test"), {"kind": "source", "name": "shop"}
    page = client.get(reverse("admin:connected-systems")).content.decode()
    assert '<strong>shop</strong> <span class="quiet">sql</span>' in page
    client.post(address, test)
    check = SourceCheck.objects.get()
    assert (check.name, check.error, check.failed_at) == ("shop", "", None)
    warehouse.declaration = warehouse.declaration.replace("shop.duckdb", "gone.duckdb")
    warehouse.save()
    client.post(address, test)
    check.refresh_from_db()
    assert "is missing" in check.error


def test_only_operators_and_admins_see_the_pages_of_the_system(
    otto_user: User, cora_user: User, ada_user: User, alice_user: User, books: DeclaredSource, cora: Caller
) -> None:
    for user, status in ((otto_user, 200), (ada_user, 200), (cora_user, 403), (alice_user, 302)):
        for page in ("admin:system", "admin:connected-systems"):
            assert browser(user).get(reverse(page)).status_code == status, (user, page)
    with pytest.raises(Forbidden):
        source_health.test(cora, name="library")
    assert not SourceCheck.objects.exists()


def test_operators_manage_the_installation_without_reading_memories(
    otto_user: User, alice: Caller, fact: MemoryRecord
) -> None:
    client = browser(otto_user)
    statuses = {
        "admin:analysis_declaredsource_changelist": 200, "admin:memory_project_webhook_changelist": 200,
        "admin:memories_persona_changelist": 200, "admin:memories_indexjob_changelist": 200,
        "admin:django_q_schedule_changelist": 200, "admin:indexing": 200,
        "admin:memories_memoryrecord_changelist": 403, "admin:knowledge_insight_changelist": 403,
        "admin:memories_tombstone_changelist": 403, "admin:audit": 403, "admin:people": 403,
        "admin:memory_project_user_changelist": 200,
    }  # fmt: skip
    assert {name: client.get(reverse(name)).status_code for name in statuses} == statuses
    assert client.get(reverse("memory", args=[fact.pk])).status_code == 404
    assert not build_caller(otto_user, channel="test").is_admin
    change = client.post(reverse("admin:memory_project_user_change", args=[otto_user.pk]), {"is_superuser": "on"})
    otto_user.refresh_from_db()
    assert (change.status_code, otto_user.is_superuser) == (403, False)


def test_curators_see_no_pages_of_operators(cora_user: User) -> None:
    client = browser(cora_user)
    for name in (
        "admin:indexing",
        "admin:memory_project_webhook_changelist",
        "admin:analysis_declaredsource_changelist",
    ):
        assert client.get(reverse(name)).status_code == 403, name
    page = client.get(reverse("admin:index")).content.decode()
    assert reverse("admin:system") not in page


def test_a_webhook_is_added_in_the_admin(settings: Any, otto_user: User, personas: dict[str, Persona]) -> None:
    settings.WEBHOOK_HOSTS = ["hooks.example"]
    client, add = browser(otto_user), reverse("admin:memory_project_webhook_add")
    form = {"persona": personas["sales"].pk, "url": "https://evil.example/x", "is_on": "on"}
    assert "is not an allowed host" in client.post(add, form).content.decode()
    client.post(add, {**form, "url": "https://hooks.example/secret"})
    webhook = Webhook.objects.get()
    assert webhook.url == "https://hooks.example/secret"
    rows = client.get(reverse("admin:memory_project_webhook_changelist")).content.decode()
    assert ("hooks.example" in rows, "secret" in rows) == (True, False)


def test_an_offboarding_can_be_undone(
    alice: Caller, bob: Caller, ada: Caller, alice_user: User, bob_user: User, ada_user: User
) -> None:
    record = services.remember(alice, Remember(content="What Alice knew of refunds.")).record
    his_memory = services.remember(bob, Remember(content="What Bob knew all along.")).record
    tokens.create_token(alice, user=alice_user, name="laptop")
    moved = people.offboard(ada, person=alice_user, to="bob@example.org")
    assert moved.counts == {"memories": 1}
    client = browser(ada_user)
    page = client.get(reverse("admin:person", args=[alice_user.pk])).content.decode()
    assert "Undo the hand-over" in page
    assert "memories (1)" in page
    client.post(reverse("admin:person-act", args=[alice_user.pk, "take-back"]), {"hand_over": str(moved.pk)})
    record.refresh_from_db()
    his_memory.refresh_from_db()
    alice_user.refresh_from_db()
    assert (record.created_by, his_memory.created_by) == ("alice@example.org", "bob@example.org")
    assert (alice_user.is_active, alice_user.api_tokens.get().revoked_at is not None) == (True, True)
    with pytest.raises(Conflict):
        people.undo_offboarding(ada, person=alice_user, hand_over_id=str(moved.pk))
    with pytest.raises(Forbidden):
        people.undo_offboarding(bob, person=alice_user, hand_over_id=str(moved.pk))


def test_rights_are_granted_and_revoked(ada: Caller, alice_user: User) -> None:
    Group.objects.get_or_create(name="Curators")
    people.change(ada, person=alice_user, personas=["sales"], rights=["curator", "operator"])
    alice_user.refresh_from_db()
    assert (people.rights_of(alice_user), alice_user.is_staff) == (["curator", "operator"], True)
    people.change(ada, person=alice_user, personas=["sales"], rights=[])
    alice_user.refresh_from_db()
    assert (people.rights_of(alice_user), alice_user.is_staff) == ([], False)
