"""Memories that are attached to calls about files in an object store: those about the data set that has the file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from analysis.models import DeclaredSource
from analysis.storage.mcp_tools import object_info, object_list, object_read
from foundation.people.caller import Caller
from foundation.tools.declaration import Call, Tool
from knowledge.context.attached_memories import attach_memories
from knowledge.entities.call_subject import subject_of
from memories import services
from memories.operations import Remember
from tests.fake_s3 import serving
from tests.knowledge.conftest import put

pytestmark = pytest.mark.django_db

SALES, LAKE_ORDERS, PARTS = "lake/sales", "lake/sales/orders", "lake/sales/a%2C%28b%29"


def urn(path: str, platform: str = "s3", environment: str = "PROD") -> str:
    return f"urn:li:dataset:(urn:li:dataPlatform:{platform},{path},{environment})"


@pytest.fixture
def lake() -> Iterator[DeclaredSource]:
    for path in (SALES, LAKE_ORDERS, PARTS, "lake/sales/orders_old", "lake/sales/inst/x"):
        put(urn(path), "datasetProperties", {"name": path, "description": ""})
    put(urn("lake/sales/orders/2026", environment="DEV"), "datasetProperties", {"name": "dev", "description": ""})
    files = ["orders/2026/05.csv", "orders_old/1.csv", "orders2/1.csv", "a,(b)/1.csv", "plain.csv"]
    with serving({f"sales/{file}": b"id\n1\n" for file in files}) as source:
        yield source


def subject(caller: Caller, tool: Tool, **arguments: str) -> tuple[list[str], list[str]]:
    found = subject_of(caller, Call(tool.name, arguments, tool(caller, **arguments)))
    return found.requested, found.answered


def test_a_file_belongs_to_the_entity_with_the_longest_path(alice: Caller, lake: DeclaredSource) -> None:
    assert subject(alice, object_read, key="orders/2026/05.csv") == ([urn(LAKE_ORDERS)], [])
    assert subject(alice, object_info, key="orders_old/1.csv") == ([urn("lake/sales/orders_old")], [])
    assert subject(alice, object_info, key="orders2/1.csv") == ([urn(SALES)], [])
    assert subject(alice, object_info, key="a,(b)/1.csv") == ([urn(PARTS)], [])
    assert subject(alice, object_list, prefix="orders/20") == ([urn(LAKE_ORDERS)], [])
    requested, answered = subject(alice, object_list)
    assert (requested, set(answered)) == ([urn(SALES)], {urn(LAKE_ORDERS), urn(PARTS), urn("lake/sales/orders_old")})


def test_the_declaration_tells_how_the_catalog_names_the_store(alice: Caller, lake: DeclaredSource) -> None:
    put(urn("eu.lake/sales/orders", "gcs", "DEV"), "datasetProperties", {"name": "gcs", "description": ""})
    lake.declaration += 'platform = "gcs"\nplatform_instance = "eu"\nenvironment = "DEV"\n'
    lake.save()
    assert subject(alice, object_info, key="orders/2026/05.csv") == ([urn("eu.lake/sales/orders", "gcs", "DEV")], [])


def test_memories_about_its_data_set_are_attached_to_a_file(
    alice: Caller, bob: Caller, olga: Caller, lake: DeclaredSource
) -> None:
    fact = Remember.read({"content": "Refunds are missing before May.", "entity_urns": [urn(LAKE_ORDERS)]})
    services.remember(alice, fact)
    for tool, arguments in (
        (object_read, {"key": "orders/2026/05.csv"}),
        (object_info, {"key": "orders/2026/05.csv"}),
        (object_list, {"prefix": "orders/"}),
    ):
        call = Call(tool.name, arguments, tool(bob, **arguments))
        attached = attach_memories(bob, call)
        assert attached is not None, tool.name
        assert [entry["content"] for entry in attached.data["memory_context"]] == ["Refunds are missing before May."]
        assert attach_memories(olga, call) is None  # neither the memory nor the store is for her persona
    call = Call("object_info", {"key": "orders_old/1.csv"}, object_info(bob, key="orders_old/1.csv"))
    assert attach_memories(bob, call) is None
