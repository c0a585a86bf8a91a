"""What hash partitions of the passages by owner would change: vector search for one owner, and for everybody.

    python bench/partitions.py [--passages 200000] [--owners 200] [--partitions 16]

Compares the table of passages as it is, plus a column for the owner, with a copy that is partitioned by the hash of
that column, each partition with a vector index of its own. Vectors are random clusters. Prints the median of 50
searches for the ten nearest passages, and recall@10 of the search among everybody's passages against a scan.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
import scratch

DIMENSIONS = 384
QUERIES = 50
BATCH = 5_000
COLUMNS = "id bigint, owner text NOT NULL, vector vector(384) NOT NULL"
NEAREST = "SELECT id FROM {table} {where} ORDER BY vector::halfvec(384) <=> %s::halfvec(384) LIMIT 10"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=200_000)
    parser.add_argument("--owners", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=16)
    arguments = parser.parse_args()
    scratch.setup()
    from django.db import connection  # noqa: PLC0415 - after setup()

    with scratch.database(), connection.cursor() as cursor:
        queries = create(cursor, arguments.passages, arguments.owners, arguments.partitions)
        print(f"{'':<12} {'one owner, ms':>14} {'everybody, ms':>14} {'recall@10':>10}")
        for table in ("whole", "parted"):
            one = median(cursor, table, "WHERE owner = 'owner 7'", queries)
            everybody = median(cursor, table, "", queries)
            print(f"{table:<12} {one:>14.2f} {everybody:>14.2f} {recall(cursor, table, queries):>10.3f}")


def create(cursor: Any, passages: int, owners: int, partitions: int) -> list[str]:
    """Create and fill both tables with their indexes, and return vectors to search for."""
    dice = np.random.default_rng(1)
    centers = dice.normal(size=(500, DIMENSIONS))
    cursor.execute(f"CREATE TABLE whole ({COLUMNS})")
    cursor.execute(f"CREATE TABLE parted ({COLUMNS}) PARTITION BY HASH (owner)")
    for number in range(partitions):
        cursor.execute(
            f"CREATE TABLE parted_{number} PARTITION OF parted"
            f" FOR VALUES WITH (MODULUS {partitions}, REMAINDER {number})"
        )
    for start in range(0, passages, BATCH):
        vectors = centers[dice.integers(0, 500, BATCH)] + 0.6 * dice.normal(size=(BATCH, DIMENSIONS))
        with cursor.copy("COPY whole (id, owner, vector) FROM STDIN") as copy:
            for number, vector in enumerate(vectors.round(4), start):
                copy.write_row((number, f"owner {number % owners}", str(vector.tolist())))
    cursor.execute("INSERT INTO parted SELECT * FROM whole")
    cursor.execute("SET maintenance_work_mem = '1GB'")
    index(cursor, "whole", passages)
    index(cursor, "parted", passages // partitions)
    cursor.execute("VACUUM ANALYZE whole, parted")
    return [str((centers[n] + 0.6 * dice.normal(size=DIMENSIONS)).round(4).tolist()) for n in range(QUERIES)]


def index(cursor: Any, table: str, rows: int) -> None:
    lists = max(round(rows ** (2 / 3) / 5), 1)
    cursor.execute(f"CREATE INDEX ON {table} (owner)")
    cursor.execute(
        f"CREATE INDEX ON {table} USING ivfflat ((vector::halfvec(384)) halfvec_cosine_ops) WITH (lists = {lists})"
    )


def median(cursor: Any, table: str, where: str, queries: list[str]) -> float:
    times = []
    for query in queries:
        started = time.perf_counter()
        cursor.execute(NEAREST.format(table=table, where=where), [query])
        cursor.fetchall()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


def recall(cursor: Any, table: str, queries: list[str]) -> float:
    found = []
    for query in queries:
        rows = []
        for scan in ("on", "off"):
            cursor.execute(f"SET enable_indexscan = {scan}")
            cursor.execute(NEAREST.format(table=table, where=""), [query])
            rows.append({pk for (pk,) in cursor.fetchall()})
        found.append(len(rows[0] & rows[1]) / 10)
    cursor.execute("RESET enable_indexscan")
    return statistics.mean(found)


if __name__ == "__main__":
    main()
