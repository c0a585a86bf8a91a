"""Lineage neighbors of a DataHub without a copy, looked up in the background of a call."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import caches

from foundation.people.caller import Caller
from foundation.tools.declaration import Call
from knowledge.catalog import mirror, neighbors
from knowledge.catalog.datahub import DataHubCatalog
from knowledge.context.attached_memories import LINEAGE_UNKNOWN, attach_memories
from memories import services
from memories.operations import Remember
from tests.fake_datahub import Faults
from tests.knowledge.conftest import MART, ORDERS, REFUNDS

pytestmark = pytest.mark.django_db
ENTITY_CALL = Call("catalog_entity", {"urn": MART}, {})


@pytest.fixture(autouse=True)
def nothing_learned() -> Iterator[None]:
    caches["calls"].clear()
    yield
    caches["calls"].clear()


def test_neighbors_are_looked_up_once(gms: Faults) -> None:
    assert neighbors.neighbors_of([MART]) == []
    assert neighbors.learn([MART], patience_s=5.0)
    assert sorted(neighbors.neighbors_of([MART])) == sorted([ORDERS, REFUNDS])
    count = len(gms.requests)
    assert neighbors.learn([MART], patience_s=5.0)
    assert len(gms.requests) == count


def test_memories_about_neighbors_are_attached_without_a_copy(
    gms: Faults, alice: Caller, bob: Caller, settings: Any
) -> None:
    settings.MEMORY_CONTEXT_MS = 10_000
    services.remember(alice, Remember(content="Orders reach the mart at ten.", entity_urns=[ORDERS]))
    attached = attach_memories(bob, ENTITY_CALL)
    assert attached
    assert attached.data["memory_context"][0]["why"].endswith("one step of lineage away; shares: mart")
    assert "note" not in attached.data


def test_a_slow_lookup_does_not_delay_the_call_and_serves_the_next(
    gms: Faults, alice: Caller, bob: Caller, settings: Any
) -> None:
    settings.MEMORY_CONTEXT_MS = 1_500
    services.remember(alice, Remember(content="Marts are built at noon.", entity_urns=[MART]))
    services.remember(alice, Remember(content="Orders reach the mart at ten.", entity_urns=[ORDERS]))
    DataHubCatalog.configured().existing([MART])  # imports the SDK and connects it before the delay begins
    gms.delay_s = 1.2
    first = attach_memories(bob, ENTITY_CALL)
    assert first
    assert ([entry["content"] for entry in first.data["memory_context"]], first.data["note"]) == (
        ["Marts are built at noon."],
        LINEAGE_UNKNOWN,
    )
    gms.delay_s = 0.0
    deadline = time.monotonic() + 10
    while not neighbors.learn([MART], patience_s=1.0) and time.monotonic() < deadline:
        time.sleep(0.1)
    second = attach_memories(bob, ENTITY_CALL)
    assert second
    assert "Orders reach the mart at ten." in [entry["content"] for entry in second.data["memory_context"]]


def test_an_unavailable_datahub_is_not_asked_again_at_once(
    gms: Faults, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = MART.replace("mart", "other")  # a lookup of another test may still be under way
    DataHubCatalog.configured.cache_clear()
    settings.DATAHUB_GMS_URL, settings.DATAHUB_TIMEOUT_S = "http://127.0.0.1:9", 0.3
    assert not neighbors.learn([other], patience_s=60.0)
    asked: list[str] = []
    monkeypatch.setattr(neighbors, "_fetch", asked.append)
    assert neighbors.neighbors_of([other]) == []
    assert not neighbors.learn([other], patience_s=60.0)
    assert asked == []


def test_neighbors_are_read_from_the_copy(gms: Faults) -> None:
    list(mirror.mirror(DataHubCatalog.configured()))
    count = len(gms.requests)
    assert neighbors.is_known([MART])
    assert (sorted(neighbors.neighbors_of([MART])), len(gms.requests)) == (sorted([ORDERS, REFUNDS]), count)
