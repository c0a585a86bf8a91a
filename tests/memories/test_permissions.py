"""Rights and personas of a caller, read from the database for every call in one statement."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group
from django.db import connection

from foundation.operations.errors import Forbidden
from foundation.people.models import Persona, PersonaMembership
from foundation.people.permissions import PERMISSIONS, build_caller, load_user_access
from memory_project.accounts import people
from memory_project.models import User

pytestmark = pytest.mark.django_db


def test_rights_come_from_groups_and_from_the_user(alice_user: User) -> None:
    assert build_caller(alice_user, channel="test").rights == frozenset()
    people.give_rights(alice_user, ["curator"])
    assert build_caller(alice_user, channel="test").rights == {"curate"}
    permission = Group.objects.get(name="Curators").permissions.get(codename="curate")
    people.give_rights(alice_user, [])
    assert build_caller(alice_user, channel="test").rights == frozenset()
    alice_user.user_permissions.add(permission)
    assert build_caller(alice_user, channel="test").rights == {"curate"}


def test_a_disabled_or_deleted_account_is_rejected_at_once(alice_user: User) -> None:
    User.objects.filter(pk=alice_user.pk).update(is_active=False)
    with pytest.raises(Forbidden, match="this account is disabled"):
        build_caller(alice_user, channel="test")
    number = alice_user.pk
    User.objects.filter(pk=number).delete()
    assert load_user_access(number, PERMISSIONS) is None
    with pytest.raises(Forbidden, match="this account no longer exists"):
        build_caller(alice_user, channel="test")


def test_a_user_without_persona_has_the_default_persona(alice_user: User) -> None:
    PersonaMembership.objects.filter(user=alice_user).delete()
    fallback = Persona.default().name
    caller = build_caller(alice_user, channel="test")
    assert (caller.persona, caller.personas) == (fallback, frozenset({fallback}))


def test_a_column_of_a_newer_version_is_ignored(alice_user: User) -> None:
    before = build_caller(alice_user, channel="test")
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE memories_persona ADD COLUMN colour text")
    assert build_caller(alice_user, channel="test") == before


def test_the_default_persona_is_active_whatever_its_position(alice_user: User, personas: dict[str, Persona]) -> None:
    PersonaMembership.objects.filter(user=alice_user).update(is_default=False)
    PersonaMembership.objects.create(user=alice_user, persona=personas["supply"], is_default=True)
    caller = build_caller(alice_user, channel="test")
    assert (caller.persona, caller.personas) == ("supply", frozenset({"sales", "supply"}))
