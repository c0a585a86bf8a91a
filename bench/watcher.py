"""Measure how much the staleness check reads from the catalog: memories compared, bulk reads, seconds.

    python bench/watcher.py [--memories 10000] [--entities 300]

Uses the embedded catalog and counts its reads. With a real DataHub, a bulk read sends one request per hundred entities
of a type.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import scratch


def urn(number: int) -> str:
    return f"urn:li:dataset:(urn:li:dataPlatform:snowflake,bench.table_{number},PROD)"


def columns(round_number: int, table: str) -> list[dict[str, str]]:
    """Return related columns for every second memory of a table."""
    return [{"urn": table, "column": f"c{round_number % 10}", "relevance": "x"}] if round_number % 2 else []


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
    from knowledge.freshness import stale_detection  # noqa: PLC0415

    reads: list[int] = []

    class CountingCatalog(LocalCatalog):
        def read(self, urns: Sequence[str], aspects: Sequence[str]) -> Any:
            reads.append(len(urns))
            return super().read(urns, aspects)

    # replaces the configured catalog, to count its reads
    stale_detection.get_readable_catalog = CountingCatalog  # type: ignore[attr-defined]
    with scratch.database():
        fill(options.memories, options.entities)
        for name in ("baselines taken", "nothing changed", "one column dropped in every tenth table"):
            if name.startswith("one"):
                for number in range(0, options.entities, 10):
                    fields = [{"fieldPath": f"c{n}", "nullable": True, "nativeDataType": "NUMBER"} for n in range(9)]
                    LocalCatalog().put(urn(number), "schemaMetadata", {"schemaName": "x", "fields": fields}, {})
            reads.clear()
            started = time.perf_counter()
            swept = stale_detection.check_all_entities(options.memories)
            seconds = time.perf_counter() - started
            requests = sum(-(-size // 100) for size in reads)
            print(
                f"{name}: {swept.checked:,} compared, {swept.stale:,} stale, {swept.to_verify:,} to verify; "
                f"{len(reads)} bulk reads, {requests} requests to a DataHub, {seconds:.1f} s"
            )


if __name__ == "__main__":
    main()
