"""Compare loading metadata files into the embedded catalog with writing one aspect at a time.

python bench/load.py [--aspects 10000]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import scratch


def records(count: int) -> list[dict[str, Any]]:
    """Return two aspects for each table: its properties, and a schema of ten columns."""
    proposals = []
    for number in range(count // 2):
        urn = f"urn:li:dataset:(urn:li:dataPlatform:snowflake,load.table_{number},PROD)"
        fields = [{"fieldPath": f"c{n}", "nullable": True, "nativeDataType": "NUMBER"} for n in range(10)]
        properties = {"name": f"table_{number}", "description": f"Table number {number} of the benchmark."}
        for aspect, value in (
            ("datasetProperties", properties),
            ("schemaMetadata", {"schemaName": "s", "fields": fields}),
        ):
            proposal = {"entityUrn": urn, "aspectName": aspect, "changeType": "UPSERT", "aspect": {"json": value}}
            proposals.append(proposal)
    return proposals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--aspects", type=int, default=10_000)
    options = parser.parse_args()
    scratch.setup()
    with scratch.database():
        from knowledge.catalog.embedded import LocalCatalog  # noqa: PLC0415 - after setup()
        from knowledge.freshness import catalog_load  # noqa: PLC0415 - after setup()

        proposals = records(options.aspects)
        single, catalog = proposals[:200], LocalCatalog()
        began = time.perf_counter()
        for proposal in single:
            catalog.put(proposal["entityUrn"], proposal["aspectName"], proposal["aspect"]["json"], {})
        alone = len(single) / (time.perf_counter() - began)
        began = time.perf_counter()
        *_, totals = catalog_load.load(proposals[200:])
        bulk = totals.writes / (time.perf_counter() - began)
        print(
            f"one at a time  {alone:8.0f} aspects/s\nin bulk        {bulk:8.0f} aspects/s, {bulk / alone:.0f} x as fast"
        )


if __name__ == "__main__":
    main()
