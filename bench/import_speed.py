"""Rate and memory of a staged import: parse a CSV file, take it over, and undo it.

    python bench/import_speed.py [--rows 100000] [--no-undo]

Prints rows per second for each step, and the process's resident memory in MB after each tenth of a step.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import scratch

WORDS = ["orders", "refunds", "stores", "channel", "margin", "basket", "returns", "freight", "invoices", "regions"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--no-undo", action="store_true", help="leave out the slowest step")
    arguments = parser.parse_args()
    scratch.setup()
    with scratch.database():
        measure(arguments.rows, undo=not arguments.no_undo)


def measure(count: int, *, undo: bool) -> None:
    from foundation.people.permissions import build_caller  # noqa: PLC0415 - after setup()
    from memory_project.exchange.imports import staging, taking_over  # noqa: PLC0415 - after setup()
    from memory_project.exchange.imports.models import ImportRow  # noqa: PLC0415 - after setup()
    from memory_project.models import User  # noqa: PLC0415 - after setup()

    person = User.objects.create_user("importer@example.org", None)
    caller = build_caller(person, channel="command")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "facts.csv"
        write(file, count)
        with file.open("rb") as content:
            staged = staging.start(caller, file=content, name=file.name)
    step("parse", staged, person, count, lambda: staged.rows_read)
    taking_over.start(caller, import_id=staged.pk)
    step("take over", staged, person, count, lambda: ImportRow.objects.filter(of=staged, outcome="kept").count())
    if not undo:
        return
    taking_over.start_undo(caller, import_id=staged.pk)
    step("undo", staged, person, count, lambda: ImportRow.objects.filter(of=staged, outcome="undone").count())


def step(name: str, staged: Any, person: Any, count: int, done: Callable[[], int]) -> None:
    from foundation.work.jobs import run_slices  # noqa: PLC0415 - after setup()
    from memory_project.exchange.imports.jobs import ImportJobs  # noqa: PLC0415 - after setup()

    started, memory = time.perf_counter(), [rss()]
    staged.refresh_from_db()
    while staged.is_working:
        run_slices(ImportJobs(), staged, 2.0)
        if done() >= count * len(memory) / 10:
            memory.append(rss())
    seconds = time.perf_counter() - started
    print(f"{name}: {count / seconds:,.0f} rows/s; RSS in MB: {', '.join(map(str, memory))}", flush=True)


def write(file: Path, count: int) -> None:
    with open(file, "w", encoding="utf-8") as text:
        text.write("content,category,tags,id\n")
        for number in range(count):
            words = " ".join(WORDS[(number >> shift) % len(WORDS)] for shift in (0, 3, 6, 9))
            text.write(f"Rule {number}: {words} are counted once.,business_context,finance,{number}\n")


def rss() -> int:
    return int(psutil.Process(os.getpid()).memory_info().rss // 1_000_000)


if __name__ == "__main__":
    main()
