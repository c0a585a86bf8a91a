"""Measure frequent operations at growing numbers of memories and owners, and draw them with logarithmic axes.

    python bench/size_curves.py [--memories 10000,100000,1000000] [--owners 10,100,1000] [--rounds 15]
                                [--picture docs/img/sizes.svg]

Fills a database of page_data.py for each pair, and measures within this process, as one of the owners and as a curator:

- recall, memories for a statement, and remember: the agents' operations
- My Knowledge and the review page, through all middleware
- an import of 200 rows, an export of one owner's memories, and a backup

The person sees a fifth of all memories. Times are in ms of CPU of this process and its connection, so that other work
on the machine counts little, and medians but for import, export and backup; the backup's is on the clock. Results are
added to RESULTS, where those of other pairs stay, and PICTURE has one figure for each operation.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import scratch
from curves import Chart, Line, drawing
from page_data import fill
from page_rows import CURATOR, Size
from pages import cpu_time

PERSON = "owner7@bench.example"
IMPORTED = 200
TITLES = {
    "recall": "Recall",
    "memories for a statement": "Memories for a statement",
    "remember": "Remember",
    "My Knowledge": "My Knowledge",
    "review page": "Review page",
    "import": f"Import of {IMPORTED} rows",
    "export": "Export of one owner's memories",
    "backup": "Backup",
}


def repeated_ms(rounds: int, do: Callable[[int], object]) -> float:
    """Return the median CPU time of a call in ms, without the first two."""
    times = []
    for number in range(rounds + 2):
        started = cpu_time()
        do(number)
        times.append(1000 * (cpu_time() - started))
    return statistics.median(times[2:])


def measure(rounds: int) -> Iterator[tuple[str, float]]:
    """Yield the name of each operation and its time in ms."""
    from django.contrib.auth import get_user_model  # noqa: PLC0415 - after setup()
    from django.test import Client  # noqa: PLC0415 - after setup()

    from foundation.database import identity  # noqa: PLC0415 - after setup()
    from foundation.people.permissions import build_caller  # noqa: PLC0415 - after setup()
    from foundation.tools.declaration import Call  # noqa: PLC0415 - after setup()
    from knowledge.context.attached_memories import attach_memories  # noqa: PLC0415 - after setup()
    from memories import services  # noqa: PLC0415 - after setup()
    from memories.operations import RecallMemories, Remember  # noqa: PLC0415 - after setup()
    from memories.retrieval.recall import recall  # noqa: PLC0415 - after setup()

    users = get_user_model().objects
    caller = build_caller(users.get(email=PERSON), channel="bench")
    browsers = {}
    for email in (PERSON, CURATOR):
        browsers[email] = Client(HTTP_HOST="localhost")
        browsers[email].force_login(users.get(email=email))

    def sql(number: int) -> str:
        columns = f"column_{number % 20}, sum(column_3)"
        return f"SELECT {columns} FROM fernhill.sales.table_{6 * number} GROUP BY 1"  # noqa: S608 - is not run

    with identity.acting_as(caller):
        yield "recall", repeated_ms(rounds, lambda n: recall(caller, RecallMemories(query=text(n))))
        yield (
            "memories for a statement",
            repeated_ms(rounds, lambda n: attach_memories(caller, Call("query_sql", {"sql": sql(n)}, {}))),
        )
        yield "remember", repeated_ms(rounds, lambda n: services.remember(caller, Remember(content=f"{text(n)} {n}")))
    pages = (("My Knowledge", PERSON, "/"), ("review page", CURATOR, "/review/all/?state=pending"))
    for name, email, address in pages:
        yield name, repeated_ms(rounds, lambda n, page=address, browser=browsers[email]: opened(browser, page))  # type: ignore[misc]
    yield "import", import_rows(caller)
    yield "export", export(caller)
    yield "backup", backup()


def opened(browser: Any, address: str) -> None:
    response = browser.get(address)
    assert response.status_code == 200, f"{address}: {response.status_code}"


def text(number: int) -> str:
    words = ("refunds", "stock", "suppliers", "vouchers", "margin", "tax", "carts", "outlets")
    return f"How are {words[number % 8]} of table_{number * 7} counted in column_{number % 20}"


def import_rows(caller: Any) -> float:
    from foundation.work.jobs import run_slices  # noqa: PLC0415 - after setup()
    from memory_project.exchange.imports import staging, taking_over  # noqa: PLC0415 - after setup()
    from memory_project.exchange.imports.jobs import ImportJobs  # noqa: PLC0415 - after setup()

    lines = ["content", *(f"Imported fact {number} of the tills and their floats." for number in range(IMPORTED))]
    started = cpu_time()
    with tempfile.NamedTemporaryFile("w+", suffix=".csv") as file:
        file.write("\n".join(lines))
        file.flush()
        with open(file.name, "rb") as content:
            staged = staging.start(caller, file=content, name="facts.csv")
    run_slices(ImportJobs(), staged, 600)
    staged.refresh_from_db()
    taking_over.start(caller, import_id=staged.pk)
    staged.refresh_from_db()
    while staged.is_working:
        run_slices(ImportJobs(), staged, 600)
    return 1000 * (cpu_time() - started)


def export(caller: Any) -> float:
    from foundation.work.jobs import run_slices  # noqa: PLC0415 - after setup()
    from memory_project.exchange.exports import services  # noqa: PLC0415 - after setup()

    services.exports_of(caller).delete()  # the test data have as many as there may be
    started = cpu_time()
    row = services.start_export(caller)
    run_slices(services.ExportJobs(), row, 3600)
    row.refresh_from_db()
    assert row.state == "done", row.error
    return 1000 * (cpu_time() - started)


def backup() -> float:
    from memory_project.operating.backups import archive  # noqa: PLC0415 - after setup()

    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        archive.write(Path(folder) / "one.backup")
        return 1000 * (time.perf_counter() - started)


def charts(results: dict[str, dict[str, float]]) -> list[Chart]:
    pairs = sorted(tuple(map(int, pair.split())) for pair in results)
    found = []
    for operation, title in TITLES.items():
        lines = [
            Line(
                f"{owners:,} owners",
                [(memories, results[f"{memories} {of}"][operation]) for memories, of in pairs if of == owners],
            )
            for owners in sorted({owners for _, owners in pairs})
        ]
        found.append(Chart(f"{title}, ms", lines, is_logarithmic=True))
    return found


def print_table(results: dict[str, dict[str, float]]) -> None:
    pairs = sorted(results, key=lambda pair: [int(part) for part in pair.split()])
    print(f"{'memories':>10}{'owners':>8}" + "".join(f"{name[:14]:>16}" for name in TITLES))
    for pair in pairs:
        memories, owners = map(int, pair.split())
        times = "".join(f"{results[pair][name]:>16,.1f}" for name in TITLES)
        print(f"{memories:>10,}{owners:>8,}{times}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", default="10000,100000,1000000")
    parser.add_argument("--owners", default="10,100,1000")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--picture", type=Path, default=scratch.ROOT / "docs" / "img" / "sizes.svg")
    parser.add_argument("--results", type=Path, default=Path(__file__).with_name("sizes.json"))
    options = parser.parse_args()
    scratch.setup()
    from django.core.management import call_command  # noqa: PLC0415 - after setup()
    from django.db import connection  # noqa: PLC0415 - after setup()

    from foundation import embedding  # noqa: PLC0415 - after setup()
    from foundation.database.transaction_settings import limit_statements  # noqa: PLC0415 - after setup()

    connection.settings_dict["TEST"]["NAME"] = f"bench_sizes_{os.getpid()}"
    call_command("collectstatic", "--no-input", verbosity=0)
    embedding.current(wait_s=300)
    file = options.results
    for memories, owners in product(numbers(options.memories), numbers(options.owners)):
        with scratch.database():
            started = time.perf_counter()
            limit_statements(0)  # the pages of the pair before have set a limit
            fill(Size(memories, owners=owners))
            with connection.cursor() as cursor:
                cursor.execute("VACUUM ANALYZE")
            print(f"{memories:,} of {owners:,} owners: filled in {time.perf_counter() - started:.0f} s", flush=True)
            measured = {name: round(ms, 2) for name, ms in measure(options.rounds)}
        results = json.loads(file.read_text()) if file.exists() else {}
        results[f"{memories} {owners}"] = measured
        file.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
        options.picture.write_text(drawing(charts(results)))
    print_table(results)


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    main()
