"""The copy of a DataHub: read with its age while DataHub is unavailable, and never written to directly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from foundation.people.caller import Caller
from knowledge.catalog.current import get_catalog, get_readable_catalog
from knowledge.catalog.datahub import DataHubCatalog
from knowledge.catalog.embedded import LocalCatalog
from knowledge.catalog.interface import Aspect, CatalogUnavailable, Write, WriteRun
from knowledge.catalog.mirror import last_copied_at
from knowledge.freshness import stale_detection
from knowledge.freshness.catalog_events import copy_catalog, follow_once
from knowledge.mcp_tools.capture import capture_insight
from knowledge.mcp_tools.catalog import catalog_entity, catalog_search
from knowledge.models import CatalogAspect, CatalogCursor
from memories import services
from memories.mcp_tools import memory_recall
from memories.operations import Remember
from tests.fake_datahub import Faults
from tests.knowledge.conftest import MART, ORDERS

pytestmark = pytest.mark.django_db


@pytest.fixture
def away(settings: Any) -> Callable[[], None]:
    def disconnect() -> None:
        settings.DATAHUB_GMS_URL, settings.DATAHUB_TIMEOUT_S = "http://127.0.0.1:9", 0.3
        DataHubCatalog.configured.cache_clear()

    return disconnect


@pytest.mark.django_db(transaction=True)
def test_a_second_copy_writes_only_changes(gms: Faults, capsys: Any) -> None:
    call_command("sync_catalog", verbosity=0)
    assert "5 entities, 14 aspects new or changed, 0 entities removed" in capsys.readouterr().out
    call_command("sync_catalog", verbosity=0)
    assert "5 entities, 0 aspects new or changed, 0 entities removed" in capsys.readouterr().out
    assert DataHubCatalog.configured().existing([ORDERS, MART]) == {ORDERS, MART}


def test_reads_use_the_copy_and_report_its_age(gms: Faults, alice: Caller, away: Callable[[], None]) -> None:
    near = services.remember(alice, Remember(content="The mart is built at five.", entity_urns=[MART])).record
    call_command("sync_catalog", verbosity=0)
    away()
    entity = catalog_entity(alice, urn=ORDERS).data["entity"]
    assert entity["description"] == "Table sales.orders."
    assert "from the copy of" in entity["note"]
    assert catalog_search(alice, query="orders")["count"] >= 1
    graph = memory_recall(alice, strategy="graph", entity_urns=[ORDERS]).data
    assert [memory["id"] for memory in graph["memories"]] == [near.pk.hex]
    assert "from the copy of" in graph["note"]
    captured = capture_insight(
        alice, category="correction", insight_text="Orders are late on Mondays.", entity_urns=[ORDERS]
    )
    assert captured["evidence"]["degraded"] is True
    assert "from the copy of" in stale_detection.check_all_entities(10).note


def test_without_a_copy_reads_fail_during_an_outage(gms: Faults, alice: Caller, away: Callable[[], None]) -> None:
    away()
    with pytest.raises(CatalogUnavailable):
        catalog_entity(alice, urn=ORDERS)
    with pytest.raises(CommandError, match="Run the command again"):
        call_command("sync_catalog", verbosity=0)


def test_nothing_is_written_to_the_copy(gms: Faults, away: Callable[[], None]) -> None:
    call_command("sync_catalog", verbosity=0)
    away()
    for catalog in (get_catalog(), get_readable_catalog()):
        with pytest.raises(CatalogUnavailable):
            catalog.write(Write(ORDERS, "globalTags", ("tags", "x"), "add", {"tag": "x"}), WriteRun("x", "x"))
    with pytest.raises(CatalogUnavailable):
        get_catalog().read([ORDERS], ["globalTags"])


class RemoteCatalog:
    """A catalog whose data is not in our tables."""

    def __init__(self, descriptions: dict[str, str]) -> None:
        self.descriptions = descriptions

    def all_urns(self, kind: str, at_once: int) -> Iterator[list[str]]:
        for urn in sorted(self.descriptions) if kind == "dataset" else ():
            yield [urn]

    def read(self, urns: Sequence[str], aspects: Sequence[str]) -> dict[str, dict[str, Aspect]]:
        return {
            urn: {
                **dict.fromkeys(aspects, Aspect()),
                "datasetProperties": Aspect({"description": self.descriptions[urn]}, 1),
            }
            for urn in urns
        }


def test_a_copy_is_updated_and_marks_removed_entities(db: None) -> None:
    remote, local = RemoteCatalog({ORDERS: "Orders.", MART: "Mart."}), LocalCatalog()
    assert list(copy_catalog(remote))[-1].entities == 2
    assert local.existing([ORDERS, MART]) == {ORDERS, MART}
    versions = CatalogAspect.objects.count()
    assert list(copy_catalog(remote))[-1].writes == 0
    assert CatalogAspect.objects.count() == versions
    remote.descriptions = {ORDERS: "Orders after payment."}
    last = list(copy_catalog(remote))[-1]
    assert (last.writes, last.removals) == (1, 1)
    assert local.existing([ORDERS, MART]) == {ORDERS}
    assert local.search("payment")[0].urn == ORDERS
    remote.descriptions[MART] = "Mart."
    list(copy_catalog(remote))
    assert local.existing([MART]) == {MART}
    assert last_copied_at() is not None


def test_events_update_the_copy(gms: Faults, monkeypatch: Any) -> None:
    copied: list[str] = []
    monkeypatch.setattr("knowledge.catalog.mirror.copy", lambda catalog, urns: copied.extend(urns))
    follow_once(wait_s=1)
    gms.events.append(ORDERS)
    follow_once(wait_s=1)
    assert copied == []  # no copy has been made yet
    CatalogCursor.objects.create(name="mirror", value=timezone.now().isoformat())
    gms.events.append(MART)
    follow_once(wait_s=1)
    assert copied == [MART]
