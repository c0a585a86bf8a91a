"""Measure the ingest of a wide and a long file, and storing and querying 100,000 records.

    python bench/analysis.py [--rows 100000] [--rounds 5] [--only files|queries]

The files have 5,000 rows of 300 columns and 200,000 rows of 10 columns, in JSON lines. They are ingested in pages of
1,000 rows and described. DuckDB and pandas do the same work beside it if they are installed: DuckDB copies the file
into a database file and summarizes the table; pandas reads it and counts the types, gaps and values of each column.

Creates its own database and prints the rows stored per second, with pages of 50 and of 1,000 rows, and the median of
each query in ms. Watch the stratified sample and the exact match that few rows satisfy. Both are also run in a naive
form in the same run (ranking whole rows and counting the groups; matching without the index), so that the ratio does
not depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
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
    parser.add_argument("--only", choices=["files", "queries"])
    options = parser.parse_args()
    scratch.setup()
    with scratch.database():
        if options.only != "queries":
            measure_files()
        if options.only != "files":
            session = fill(options.rows)
            measure(session, options.rounds)


# -- files -------------------------------------------------------------------------------------------------

FILES = {"wide": (5_000, 300), "long": (200_000, 10)}
SOURCE = 'kind = "file"\nread_personas = ["analyst"]\n' + "".join(
    f'[models.{name}]\npath = "{name}.jsonl"\nper_page_max = 1000\n' for name in FILES
)


def write_file(path: Path, rows: int, columns: int) -> None:
    dice = random.Random(1)
    makers: list[Callable[[], Any]] = [
        lambda: dice.randint(0, 100_000),
        lambda: round(dice.random() * 1_000, 2),
        lambda: dice.choice(["open", "won", "lost", "new"]),
        lambda: f"name {dice.randint(0, 50_000)}",
        lambda: f"2026-{dice.randint(1, 12):02d}-{dice.randint(1, 28):02d}",
        lambda: dice.choice([None, True, False]),
    ]
    with path.open("w") as file:
        for number in range(rows):
            values = {f"column_{place}": makers[place % len(makers)]() for place in range(1, columns)}
            file.write(json.dumps({"id": number, **values}) + "\n")


def measure_files() -> None:
    from django.conf import settings  # noqa: PLC0415 - after setup()

    from foundation import embedding  # noqa: PLC0415 - after setup()

    embedding.embed_query("load the model")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sources.toml").write_text(SOURCE)
        settings.ANALYSIS_FILES, settings.ANALYSIS_SOURCES = str(folder), str(folder / "sources.toml")
        for model, (rows, columns) in FILES.items():
            path = folder / f"{model}.jsonl"
            write_file(path, rows, columns)
            print(f"{rows:,} rows of {columns} columns, {path.stat().st_size / 1e6:.0f} MB")
            report("commonplace", partial(ingest, model), describe_ingested, path)
            report("duckdb", with_duckdb, lambda database: database.execute("SUMMARIZE data").fetchall(), path)
            report("pandas", with_pandas, describe_frame, path)
        settings.ANALYSIS_SOURCES = ""  # the folder goes, and queries read the declarations


def report(tool: str, load: Callable[[Path], Any], describe: Callable[[Any], Any], path: Path) -> None:
    started = time.perf_counter()
    try:
        loaded = load(path)
    except ModuleNotFoundError:
        print(f"  {tool:12} is not installed")
        return
    stored = time.perf_counter()
    describe(loaded)
    print(f"  {tool:12} store {stored - started:6.1f} s   describe {time.perf_counter() - stored:5.2f} s")


def ingest(model: str, path: Path) -> Any:
    from analysis import ingest as ingesting  # noqa: PLC0415 - after setup()
    from analysis import sessions  # noqa: PLC0415 - after setup()
    from analysis.operations import IngestRecords  # noqa: PLC0415 - after setup()
    from foundation.people.permissions import build_caller  # noqa: PLC0415 - after setup()
    from memory_project.models import User  # noqa: PLC0415 - after setup()

    user, _ = User.objects.get_or_create(email="bench@example.org")
    caller = build_caller(user, channel="bench")
    arguments = {"analysis_id": "files", "model": model, "ingest_all": True, "per_page": 1_000}
    while ingesting.ingest(caller, IngestRecords.read(arguments)).capped:
        arguments["resume"] = True
    return sessions.get_session(caller, "files"), model


def describe_ingested(loaded: Any) -> Any:
    from analysis.querying import description, query  # noqa: PLC0415 - after setup()

    session, model = loaded
    return description.describe(query.scope(session, model, None))


def with_duckdb(path: Path) -> Any:
    import duckdb  # noqa: PLC0415 - optional

    database = duckdb.connect(str(path.with_suffix(".duckdb")))
    database.execute("CREATE TABLE data AS SELECT * FROM read_json(?, format = 'newline_delimited')", [str(path)])
    return database


def with_pandas(path: Path) -> Any:
    import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: PLC0415 - optional

    return pandas.read_json(path, lines=True)


def describe_frame(frame: Any) -> Any:
    return [(name, frame[name].dtype, frame[name].isna().sum(), frame[name].value_counts().head()) for name in frame]


# -- queries -----------------------------------------------------------------------------------------------


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
            page = rows[start : start + size]
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
