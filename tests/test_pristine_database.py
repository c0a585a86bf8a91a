from __future__ import annotations

import pytest
from django.contrib.auth.models import Group
from django.test import TransactionTestCase

from foundation.people.models import Persona
from foundation.people.permissions import build_caller
from memories import services
from memories.models import MemoryRecord
from memories.operations import Remember
from tests.conftest import REFUNDS, person
from tests.database_snapshot import table_contents


@pytest.mark.django_db(transaction=True)
def test_the_commits_of_a_test_are_undone_after_it() -> None:
    before = table_contents()
    default = Persona.objects.get(is_default=True)
    caller = build_caller(person("alice@example.org", default), channel="test")
    services.remember(caller, Remember(content=REFUNDS))
    Group.objects.all().delete()
    Persona.objects.update(title="Renamed")
    assert MemoryRecord.objects.exists()
    TransactionTestCase("run")._fixture_teardown()  # type: ignore[attr-defined]  # what runs after such a test
    assert table_contents() == before
