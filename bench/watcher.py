"""What the staleness watcher asks of the catalog: memories compared, bulk reads, seconds.

    python bench/watcher.py [--memories 10000] [--entities 300]

The catalog is the embedded one behind a counter; a real DataHub gets one request for each hundred entities of
a type in a bulk read.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import scratch


def urn(number: int) -> str:
    return f"urn:li:dataset:(urn:li:dataPlatform:snowflake,bench.table_{number},PROD)"


def columns(turn: int, table: str) -> list[dict[str, str]]:
    """Every second memory of a table names one of its columns."""
    return [{"urn": table, "column": f"c{turn % 10}", "relevance": "x"}] if turn % 2 else []


def fill(memories: int, entities: int) -> None:
    from knowledge.catalog.embedded import LocalCatalog  # noqa: PLC0415 - after setup()
    from memories.models import MemoryRecord  # noqa: PLC0415

    for number in range(entities):
        fields = [{"fieldPath": f"c{n}", "nullable": True, "nativeDataType": "NUMBER"} for n in range(10)]
        LocalCatalog().put(urn(number), "schemaMetadata", {"schemaName": f"table_{number}", "fields": fields}, {})
    rows = [
        MemoryRecord(
            content=f"Fact number {n} about a table.",
            created_by=f"owner{n % 100}@example.org",
            persona="analyst",
            entity_urns=[urn(n % entities)],
            related_columns=columns(n // entities, urn(n % entities)),
        )
        for n in range(memories)
    ]
    MemoryRecord.objects.bulk_create(rows, batch_size=1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--entities", type=int, default=300)
    options = parser.parse_args()
    scratch.setup()
    from knowledge.catalog.embedded import LocalCatalog  # noqa: PLC0415
    from knowledge.freshness import comparison  # noqa: PLC0415

    reads: list[int] = []

    class Counted(LocalCatalog):
        def read(self, urns: Sequence[str], aspects: Sequence[str]) -> Any:
            reads.append(len(urns))
            return super().read(urns, aspects)

    comparison.get_readable_catalog = Counted  # type: ignore[attr-defined]  # the counter in the place of the configured catalog
    with scratch.database():
        fill(options.memories, options.entities)
        for name in ("baselines taken", "nothing changed", "one column dropped in every tenth table"):
            if name.startswith("one"):
                for number in range(0, options.entities, 10):
                    fields = [{"fieldPath": f"c{n}", "nullable": True, "nativeDataType": "NUMBER"} for n in range(9)]
                    LocalCatalog().put(urn(number), "schemaMetadata", {"schemaName": "x", "fields": fields}, {})
            reads.clear()
            started = time.perf_counter()
            swept = comparison.check_all_entities(options.memories)
            seconds = time.perf_counter() - started
            requests = sum(-(-size // 100) for size in reads)
            print(
                f"{name}: {swept.checked:,} compared, {swept.stale:,} stale, {swept.to_verify:,} to verify; "
                f"{len(reads)} bulk reads, {requests} requests to a DataHub, {seconds:.1f} s"
            )


if __name__ == "__main__":
    main()
