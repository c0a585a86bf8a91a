"""A chain of tables with a caveat at its beginning."""

from __future__ import annotations

from typing import Any

import pytest

from foundation.people.caller import Caller
from memories import services
from memories.models import MemoryRecord
from memories.operations import Remember
from tests.knowledge.conftest import ORDERS, column, put, schema_of, upstream


def dataset(name: str) -> str:
    return f"urn:li:dataset:(urn:li:dataPlatform:snowflake,sales.{name},PROD)"


DAILY, BOARD, TILLS = dataset("daily_revenue"), dataset("board"), dataset("tills")


TEXT = "Amounts before May are in cents."


def field(urn: str, name: str) -> str:
    return f"urn:li:schemaField:({urn},{name})"


def lineage(urn: str, lines: dict[str, list[tuple[str, str]]], tables: list[str] | None = None) -> None:
    """Make a table whose columns are derived from other columns: column → its sources."""
    put(urn, "schemaMetadata", schema_of(urn, [column(name) for name in (*lines, "note")]))
    sources = tables or sorted({source for line in lines.values() for source, _ in line})
    fine = [
        {
            "upstreamType": "FIELD_SET",
            "upstreams": [field(source, name) for source, name in line],
            "downstreamType": "FIELD",
            "downstreams": [field(urn, target)],
        }
        for target, line in lines.items()
    ]
    put(urn, "upstreamLineage", {"upstreams": [upstream(source) for source in sources], "fineGrainedLineages": fine})


@pytest.fixture(autouse=True)
def chain(small_catalog: None) -> None:
    """orders.amount → daily_revenue.revenue → board.revenue; orders.status → daily_revenue.open, and board → tills."""
    lineage(DAILY, {"revenue": [(ORDERS, "amount")], "open": [(ORDERS, "status")]})
    lineage(BOARD, {"revenue": [(DAILY, "revenue")], "share": [(DAILY, "open")]})
    lineage(TILLS, {"revenue": [(BOARD, "revenue")]})


def caveat(caller: Caller, *columns: str, text: str = TEXT, **fields: Any) -> MemoryRecord:
    values = {
        "content": text,
        "category": "data_quality",
        "entity_urns": [ORDERS],
        "related_columns": [{"urn": ORDERS, "column": name, "relevance": "affected"} for name in columns],
        **fields,
    }
    return services.remember(caller, Remember.read(values)).record
