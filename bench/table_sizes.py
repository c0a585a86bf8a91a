"""Bytes on disk for a memory and for an audited call, by table, and what a larger number of memories would take.

    python bench/table_sizes.py [--memories 20000] [--calls 20000]

Memories are stored with `remember_many`, which writes their passages and first revisions, from texts of 10 to 30 words.
Then the vector index is built, and calls of memory_recall are recorded in the audit log. The totals for 1, 10 and 100
million memories are multiples, with 20 audited calls for each memory.
"""

from __future__ import annotations

import argparse
import os
import random
from uuid import uuid4

import scratch

CALLS_A_MEMORY = 20
LARGER = (1_000_000, 10_000_000, 100_000_000)
SIZES = """
    SELECT relname, pg_table_size(oid), pg_indexes_size(oid) FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_total_relation_size(oid) > 0"""
SMALL = 0.01  # tables below this share of the growth are left out of the output


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=20_000)
    parser.add_argument("--calls", type=int, default=20_000)
    arguments = parser.parse_args()
    os.environ.setdefault("EMBEDDING_PROVIDER", "deterministic")  # vectors of the same size, sooner
    scratch.setup()
    with scratch.database():
        before = sizes()
        remember(arguments.memories)
        between = sizes()
        audit(arguments.calls)
        after = sizes()
    memory = report("memory", before, between, arguments.memories)
    call = report("audited call", between, after, arguments.calls)
    print(f"\nwith {CALLS_A_MEMORY} calls for each memory:")
    for count in LARGER:
        print(f"  {count:>11,} memories: {count * (memory + CALLS_A_MEMORY * call) / 2**30:6.1f} GiB,"
              f" {count * memory / 2**30:.1f} without the audit log")  # fmt: skip


def sizes() -> dict[str, tuple[int, int]]:
    """Return the bytes of each table with its TOAST table, and of its indexes."""
    from django.db import connection  # noqa: PLC0415 - after setup()

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
        cursor.execute(SIZES)
        return {name: (table, indexes) for name, table, indexes in cursor.fetchall()}


def report(unit: str, before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]], count: int) -> float:
    """Print the growth of each table for each unit, and return the bytes of all tables."""
    growth = {
        name: [(size - old) / count for size, old in zip(after[name], before.get(name, (0, 0)), strict=True)]
        for name in after
    }
    total = sum(sum(parts) for parts in growth.values())
    print(f"\n{total:,.0f} bytes for each {unit}:")
    for name, (rows, indexes) in sorted(growth.items(), key=lambda item: -sum(item[1])):
        if rows + indexes > SMALL * total:
            print(f"  {name:<28} {rows:>7,.0f} rows  {indexes:>7,.0f} indexes")
    return total


def remember(count: int) -> None:
    from recall_speed import WORDS  # noqa: PLC0415 - after setup()

    from foundation.people.permissions import build_caller  # noqa: PLC0415 - after setup()
    from memories.retrieval import vector_index  # noqa: PLC0415 - after setup()
    from memories.writing.bulk_import import remember_many  # noqa: PLC0415 - after setup()
    from memory_project.models import User  # noqa: PLC0415 - after setup()

    dice = random.Random(1)
    caller = build_caller(User.objects.create_user("owner@bench.example", None), channel="command")
    facts = [
        {"content": f"{' '.join(dice.choices(WORDS, k=dice.randint(10, 30)))} {number}.", "tags": ["bench"]}
        for number in range(count)
    ]
    remember_many(caller, facts=facts)
    print(f"the vector index: {vector_index.train()}")


def audit(count: int) -> None:
    from foundation.people.permissions import build_caller  # noqa: PLC0415 - after setup()
    from memory_project import audit  # noqa: PLC0415 - after setup()
    from memory_project.models import User  # noqa: PLC0415 - after setup()

    caller = build_caller(User.objects.get(email="owner@bench.example"), channel="command")
    for number in range(count):
        audit.record(
            caller,
            tool="memory_recall",
            outcome="ok",
            duration_ms=12.5,
            arguments={"query": f"what does net revenue of store {number} exclude", "limit": 10},
            answer={"id": uuid4().hex, "count": 10},
            request_chars=80,
            response_chars=4_000,
            only_read=True,
        )


if __name__ == "__main__":
    main()
