"""Measure what attaching memories adds to a catalog call: none, 20 and 10,000 memories about the entity.

    python bench/enrichment.py [--memories 10000] [--calls 200]

Fills its own database, calls catalog_entity through the server in one process, and prints p50 and p95 in ms and the
ratio to a call without memory context. Each call uses a new connection, so that memories are attached every time.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from dataclasses import replace
from typing import Any

import scratch

NEIGHBOURS = 3
WORDS = ["revenue", "refunds", "orders", "returns", "shipments", "stock", "suppliers", "prices", "discounts", "tax"]


def urn(number: int) -> str:
    return f"urn:li:dataset:(urn:li:dataPlatform:snowflake,bench.table_{number},PROD)"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=200)
    options = parser.parse_args()
    scratch.setup()
    with scratch.database():
        caller = fill(options.memories)
        print(f"{'call':44} {'p50':>7} {'p95':>7} {'ratio':>6}")
        base = None
        for title, number, is_on in (
            ("without memory context", 0, False),
            ("with 20 memories about the entity", 0, True),
            (f"with {options.memories:,} memories about the entity", 1, True),
        ):
            times = measure(caller, urn(number), is_on, options.calls)
            p50, p95 = statistics.median(times), statistics.quantiles(times, n=20)[-1]
            base = base or p50
            print(f"{title:44} {p50:7.1f} {p95:7.1f} {p50 / base:6.1f}")


def fill(count: int) -> Any:
    from django.db import connection  # noqa: PLC0415 - after setup()

    from foundation.people.models import Persona, PersonaMembership  # noqa: PLC0415 - after setup()
    from foundation.people.permissions import build_caller  # noqa: PLC0415 - after setup()
    from knowledge.catalog.embedded import LocalCatalog  # noqa: PLC0415 - after setup()
    from memories.models import MemoryRecord  # noqa: PLC0415 - after setup()
    from memories.retrieval import term_statistics  # noqa: PLC0415 - after setup()
    from memory_project.models import User  # noqa: PLC0415 - after setup()

    persona = Persona.objects.create(name="bench")
    people = [User.objects.create_user(f"person{n}@bench.example", None) for n in range(2)]
    for person in people:
        PersonaMembership.objects.create(user=person, persona=persona, is_default=True)
    catalog = LocalCatalog()
    for number in range(2 + NEIGHBOURS):
        name = f"bench.table_{number}"
        catalog.put(
            urn(number), "datasetProperties", {"name": name, "qualifiedName": name, "description": "A table."}, {}
        )
    upstreams = [{"dataset": urn(2 + number)} for number in range(NEIGHBOURS)]
    for number in range(2):
        catalog.put(urn(number), "upstreamLineage", {"upstreams": upstreams}, {})
    dice = random.Random(7)
    rows = [
        MemoryRecord(
            created_by=people[0].email,
            persona="bench",
            visibility="persona",
            content=f"Fact {number}: {' '.join(dice.choices(WORDS, k=12))}.",
            entity_urns=[urn(0 if number < 20 else 1)],
        )
        for number in range(count + 20)
    ]
    MemoryRecord.objects.bulk_create(rows, batch_size=2_000)
    term_statistics.refresh()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return build_caller(people[1], channel="bench")


def measure(caller: Any, entity: str, is_on: bool, calls: int) -> list[float]:
    """Return the milliseconds of each call, as measured in the server's worker thread."""
    from django.conf import settings  # noqa: PLC0415 - after setup()

    from memory_project.mcp.server import build_server  # noqa: PLC0415 - after setup()
    from memory_project.mcp.workers import Running  # noqa: PLC0415 - after setup()

    settings.MEMORY_CONTEXT = is_on
    server = build_server(toolsets=["all"], identify=lambda request: caller)
    arguments = {"urn": entity}
    times = []
    for number in range(calls + 10):
        new_connection = replace(caller, connection=f"bench {entity} {number}")
        started = time.perf_counter()
        server._answer("catalog_entity", arguments, new_connection, Running(), True)
        times.append(1000 * (time.perf_counter() - started))
    return times[10:]


if __name__ == "__main__":
    main()
