"""The pages of accounts and groups in the admin."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission
from django.urls import reverse

from foundation.people.models import Persona, PersonaMembership
from memory_project.accounts.django_permissions import effective_permissions
from memory_project.accounts.tokens import create_token
from memory_project.models import User
from tests.conftest import person
from tests.pages import browser

pytestmark = pytest.mark.django_db


def change_page(user: User) -> str:
    return reverse("admin:memory_project_user_change", args=[user.pk])


def form_of(user: User, **changes: Any) -> dict[str, Any]:
    """Return what the browser posts for the form of a person without memberships."""
    values = {
        "name": user.name, "is_active": user.is_active, "is_staff": user.is_staff, "is_superuser": user.is_superuser,
        "groups": [group.pk for group in user.groups.all()], "user_permissions": [],
    }  # fmt: skip
    management = {"memberships-TOTAL_FORMS": 0, "memberships-INITIAL_FORMS": 0}
    return {name: value for name, value in {**values, **management, **changes}.items() if value is not False}


@pytest.fixture
def helper_user(db: None) -> User:
    """A staff member with every Django permission who is no admin."""
    helper = person("helper@example.org", is_staff=True)
    helper.user_permissions.set(Permission.objects.all())
    return helper


@pytest.mark.parametrize("reader", ["admin", "staff"])
def test_no_part_of_a_password_hash_is_shown(reader: str, ada_user: User, helper_user: User, bob_user: User) -> None:
    page = browser(ada_user if reader == "admin" else helper_user).get(change_page(bob_user)).content.decode()
    salt, digest = bob_user.password.split("$")[-2:]
    shown = [part for part in (salt, salt[:6], digest, digest[:6]) if part in page]
    assert (bob_user.email in page, shown) == (True, [])
    assert ("../password/" in page) == (reader == "admin")


@pytest.mark.parametrize("target", ["self", "colleague", "admin"])
def test_staff_who_are_no_admins_change_no_account(
    target: str, helper_user: User, bob_user: User, ada_user: User
) -> None:
    client = browser(helper_user)
    other = {"self": helper_user, "colleague": bob_user, "admin": ada_user}[target]
    before = User.objects.filter(pk=other.pk).values().get()
    assert client.post(change_page(other), form_of(other, is_superuser="on", is_staff="on")).status_code == 403
    password = reverse("admin:auth_user_password_change", args=[other.pk])
    new = {"password1": "another long one", "password2": "another long one", "usable_password": "true"}
    assert client.post(password, new).status_code == 403
    add = {"email": "new@example.org", **new}
    assert client.post(reverse("admin:memory_project_user_add"), add).status_code == 403
    assert User.objects.filter(pk=other.pk).values().get() == before
    assert not User.objects.filter(email="new@example.org").exists()


def test_staff_who_are_no_admins_grant_nothing_by_groups_and_personas(
    helper_user: User, personas: dict[str, Persona]
) -> None:
    client, group = browser(helper_user), Group.objects.create(name="Mine")
    grant = {"name": "Mine", "permissions": [Permission.objects.get(codename="operate").pk]}
    assert client.post(reverse("admin:auth_group_change", args=[group.pk]), grant).status_code == 403
    assert client.post(reverse("admin:auth_group_add"), {**grant, "name": "Other"}).status_code == 403
    sales = personas["sales"]
    membership = {
        "title": sales.title, "tools_allow": "*", "tools_deny": "", "description": "", "memory_context": "on",
        "memberships-TOTAL_FORMS": 1, "memberships-INITIAL_FORMS": 0, "memberships-0-user": helper_user.pk,
    }  # fmt: skip
    client.post(reverse("admin:memories_persona_change", args=[sales.pk]), membership)
    assert not PersonaMembership.objects.filter(user=helper_user).exists()
    assert not group.permissions.exists()


@pytest.mark.parametrize("page", ["person", "group"])
def test_the_forms_offer_only_permissions_that_have_an_effect(page: str, ada_user: User, bob_user: User) -> None:
    group = Group.objects.create(name="Others")
    url = change_page(bob_user) if page == "person" else reverse("admin:auth_group_change", args=[group.pk])
    name = "user_permissions" if page == "person" else "permissions"
    form = browser(ada_user).get(url).context["adminform"].form
    offered = set(form.fields[name].queryset)
    assert offered == set(effective_permissions())
    unused = Permission.objects.get(codename="delete_memoryrecord")
    assert unused not in offered


def test_every_permission_with_an_effect_is_known(rf: Any, ada_user: User, bob_user: User, helper_user: User) -> None:
    """Compare the list with what the registered pages allow to staff who aren't admins."""
    used = {("knowledge", "curate"), ("memory_project", "operate")}
    allowed = ("view", "add", "change", "delete")
    for model, page in admin.site._registry.items():
        for verb in allowed:
            request, without = rf.get("/"), rf.get("/")
            request.user, without.user = helper_user, User.objects.get(pk=bob_user.pk)
            has = getattr(page, f"has_{verb}_permission")
            rows = () if verb == "add" else (SimpleNamespace(is_default=False, name=""),)
            if has(request, *rows) and not has(without, *rows):
                used.add((model._meta.app_label, f"{verb}_{model._meta.model_name}"))
    operator_lists = {name for name in used if name[0] == "django_q" or name[1] in OPERATORS_LISTS}
    known = {(row.content_type.app_label, row.codename) for row in effective_permissions()}
    assert known == used - operator_lists


# Lists that depend on the permission to operate, and not on one of their own
OPERATORS_LISTS = {
    "view_indexjob", "view_job", "view_catalogcursor", "view_subscription", "add_subscription", "change_subscription",
    "view_subscriptionrun", "view_subscriptionitem",
    "view_declaredupstream", "add_declaredupstream", "change_declaredupstream", "delete_declaredupstream",
}  # fmt: skip


def test_deactivating_an_account_in_the_form_revokes_its_tokens(
    ada_user: User, helper_user: User, bob: Any, bob_user: User
) -> None:
    token, _ = create_token(bob, user=bob_user, name="laptop")
    PersonaMembership.objects.filter(user=bob_user).delete()
    browser(ada_user).post(change_page(bob_user), form_of(bob_user, is_active=False))
    bob_user.refresh_from_db()
    token.refresh_from_db()
    assert (bob_user.is_active, token.revoked_at is not None) == (False, True)


@pytest.mark.parametrize("flag", ["is_active", "is_staff", "is_superuser"])
def test_admins_do_not_lock_themselves_out(flag: str, ada_user: User) -> None:
    PersonaMembership.objects.filter(user=ada_user).delete()
    page = browser(ada_user).post(change_page(ada_user), form_of(ada_user, **{flag: False}))
    ada_user.refresh_from_db()
    assert "This is your own account" in page.content.decode()
    assert getattr(ada_user, flag)


def test_the_groups_of_curators_and_operators_keep_their_names(ada_user: User) -> None:
    curators, _ = Group.objects.get_or_create(name="Curators")
    url = reverse("admin:auth_group_change", args=[curators.pk])
    kept = list(curators.permissions.values_list("pk", flat=True))
    browser(ada_user).post(url, {"name": "Others", "permissions": kept})
    curators.refresh_from_db()
    assert curators.name == "Curators"
    delete = reverse("admin:auth_group_delete", args=[curators.pk])
    assert browser(ada_user).post(delete, {"post": "yes"}).status_code == 403


def test_admins_add_people_and_set_passwords(ada_user: User) -> None:
    client = browser(ada_user)
    new = {"usable_password": "true", "password1": "another long one", "password2": "another long one"}
    management = {"memberships-TOTAL_FORMS": 0, "memberships-INITIAL_FORMS": 0}
    client.post(reverse("admin:memory_project_user_add"), {"email": "New@Example.org", **new, **management})
    added = User.objects.get(email="new@example.org")
    assert added.check_password("another long one")
    third = {"usable_password": "true", "password1": "a third long one", "password2": "a third long one"}
    client.post(reverse("admin:auth_user_password_change", args=[added.pk]), third)
    added.refresh_from_db()
    assert added.check_password("a third long one")


def test_a_membership_that_is_removed_in_the_form_ends_access(
    ada_user: User, bob_user: User, personas: dict[str, Persona], monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[str] = []
    monkeypatch.setattr("memory_project.accounts.people.memory_copies.drop_copies_unreadable_by", dropped.append)
    membership = PersonaMembership.objects.get(user=bob_user)
    form = form_of(bob_user) | {
        "memberships-TOTAL_FORMS": 1, "memberships-INITIAL_FORMS": 1, "memberships-0-id": membership.pk,
        "memberships-0-user": bob_user.pk, "memberships-0-persona": personas["sales"].pk, "memberships-0-DELETE": "on",
    }  # fmt: skip
    browser(ada_user).post(change_page(bob_user), form)
    assert (PersonaMembership.objects.filter(user=bob_user).count(), dropped) == (0, [bob_user.email])
