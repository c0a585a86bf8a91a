"""Measure an analysis of 100,000 records: storing them, and each kind of query.

    python bench/analysis.py [--rows 100000] [--rounds 5]

Creates its own database and prints the rows stored per second, with pages of 50 and of 1,000 rows, and the median of
each query in ms. Watch the stratified sample and the exact match that few rows satisfy. Both are also run in a naive
form in the same run (ranking whole rows and counting the groups; matching without the index), so that the ratio does
not depend on the machine.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import scratch

NAIVE_SAMPLE = """
    WITH ranked AS (
        SELECT data, row_number() OVER (PARTITION BY data->>'status' ORDER BY random()) AS place
        FROM ingested_records WHERE session_id = %s AND model = 'deal'),
    groups AS (SELECT count(DISTINCT data->>'status') AS n FROM ingested_records WHERE session_id = %s)
    SELECT data FROM ranked, groups WHERE place <= greatest(1, ceil(9 / greatest(1, n)::float))
    ORDER BY random() LIMIT 9
"""


def row(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "name": f"Deal {number}",
        "status": ("won", "won", "won", "open", "lost")[number % 5],
        "owner": f"owner{number % 200}",
        "amount": number % 1000,
        "rare": number if number % 20_000 == 0 else None,
        "closed_at": f"2026-{1 + number % 12:02d}-{1 + number % 28:02d}T08:00:00Z",
        "note": "x" * 40,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    scratch.setup()
    with scratch.database():
        session = fill(options.rows)
        measure(session, options.rounds)


def fill(count: int) -> Any:
    from django.db import connection  # noqa: PLC0415 - after setup()
    from django.utils import timezone  # noqa: PLC0415 - after setup()

    from analysis import records, sessions  # noqa: PLC0415 - after setup()
    from analysis.models import Session  # noqa: PLC0415 - after setup()

    now = timezone.now()
    for size, share in ((50, 0.2), (1_000, 1.0)):
        session = Session.objects.create(owner="bench@example.org", analysis_id=f"bench{size}", persona="analyst")
        rows = [row(number) for number in range(int(count * share))]
        started = time.perf_counter()
        for start in range(0, len(rows), size):
            page = [records.clean(record) for record in rows[start : start + size]]
            records.store(session, "deal", page, "id", now, now + sessions.record_ttl())
        took = time.perf_counter() - started
        print(f"store, pages of {size:5}: {len(rows) / took:8,.0f} rows/s")
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE ingested_records")
    return session


def measure(session: Any, rounds: int) -> None:
    from analysis.querying import description, query, sampling  # noqa: PLC0415 - after setup()
    from analysis.querying.query import run, scope  # noqa: PLC0415 - after setup()

    def select(conditions: dict[str, Any] | None = None) -> Any:
        return scope(session, "deal", conditions)

    near = {"field": "closed_at", "origin": "2026-06-15", "window": "30 days", "bucket": "1 week"}
    exact, key = {"rare": 40_000}, session.pk
    without_index = "SELECT data FROM ingested_records WHERE session_id = %s AND data->>'rare' = '40000' LIMIT 20"
    jobs: dict[str, Callable[[], Any]] = {
        "describe": lambda: description.describe(select()),
        "aggregate, 3 groups": lambda: query.aggregate(select(), "status"),
        "aggregate, every value": lambda: query.aggregate(select(), "name"),
        "aggregate, sum and p95": lambda: query.aggregate(
            select(),
            "status",
            metrics=[{"op": "sum", "field": "amount"}, {"op": "percentile", "field": "amount", "p": 0.95}],
        ),
        "aggregate, months": lambda: query.aggregate(select(), [{"field": "closed_at", "bucket": "1 month"}]),
        "filter, rare exact match": lambda: query.filtered(select(exact)),
        "  without the index": lambda: run(without_index, [key]),
        "filter, exact and range": lambda: query.filtered(select({"status": "lost", "amount": {"$gte": 900}})),
        "sample": lambda: sampling.sample(select(), size=9),
        "sample, stratified": lambda: sampling.sample(select(), size=9, stratify_by="status"),
        "  naive, ranking whole rows": lambda: run(NAIVE_SAMPLE, [key, key]),
        "sample, all three": lambda: sampling.sample(
            select({"amount": {"$gte": 100}}), size=12, stratify_by="status", proximity=near
        ),
    }
    for name, job in jobs.items():
        job()
        times = []
        for _ in range(rounds):
            started = time.perf_counter()
            job()
            times.append(1000 * (time.perf_counter() - started))
        print(f"{name:28} {statistics.median(times):8.1f} ms")


if __name__ == "__main__":
    main()
