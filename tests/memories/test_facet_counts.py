"""Counts beside the filters of the admin's lists."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from foundation.people.caller import Caller
from memories import services
from memories.admin import facet_counts, lists
from memories.operations import Remember
from memory_project.models import User
from tests.conftest import person

pytestmark = pytest.mark.django_db
ADDRESS = "/admin/memories/memoryrecord/?_facets=True"


def remember(caller: Caller, text: str, **fields: Any) -> None:
    services.remember(caller, Remember.read({"content": text, **fields}))


@pytest.fixture
def curator(client: Client, personas: Any) -> Client:
    user = person("casey@example.org", personas["sales"], is_staff=True)
    user.groups.add(Group.objects.get(name="Curators"))
    client.force_login(user)
    return client


@pytest.fixture
def memories(alice: Caller, olga: Caller) -> None:
    remember(alice, "Refunds of the depot are net.", category="correction")
    remember(alice, "Vouchers of the depot are gross.", category="correction", visibility="everyone")
    remember(alice, "Stock of the depot is counted daily.", category="business_context")
    remember(alice, "A private note of Alice.", category="correction", visibility="private")
    remember(olga, "Returns of the supply persona.", category="correction")


def counted(client: Client, address: str) -> dict[str, str]:
    """Return the counts as the page shows them, by the title of the choice."""
    changelist = client.get(address).context["cl"]
    shown = [str(choice["display"]) for spec in changelist.filter_specs for choice in spec.choices(changelist)]
    return dict(text.rpartition(" (")[::2] for text in shown if text.endswith(")"))


def test_counts_are_of_the_rows_that_the_reader_may_see(curator: Client, memories: None) -> None:
    counts = counted(curator, ADDRESS)
    assert (counts["Correction"], counts["Business context"]) == ("2)", "1)")
    assert (counts["Sales"], counts["Supply"], counts["Private"]) == ("3)", "0)", "0)")


def test_a_filter_in_use_does_not_restrict_its_own_counts(curator: Client, memories: None) -> None:
    counts = counted(curator, f"{ADDRESS}&category__exact=business_context")
    assert (counts["Correction"], counts["Business context"]) == ("2)", "1)")
    assert (counts["Everyone"], counts["Valid now"], counts["By anyone"]) == ("0)", "1)", "0)")


def test_counts_take_one_query_and_end_at_a_number_of_rows(
    client: Client, ada_user: User, memories: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(ada_user)
    client.get(ADDRESS)
    with CaptureQueriesContext(connection) as plain:
        client.get(ADDRESS.partition("?")[0])
    with CaptureQueriesContext(connection) as with_counts:
        response = client.get(ADDRESS)
    assert len(with_counts) == len(plain) + 1
    assert "The counts are of the first" not in response.content.decode()

    monkeypatch.setattr(facet_counts, "MAX_COUNTED", 2)
    monkeypatch.setattr(lists, "MAX_COUNTED", 2)
    assert counted(client, ADDRESS)["Active"] == "2)"
    assert "The counts are of the first 2 rows." in client.get(ADDRESS).content.decode()
