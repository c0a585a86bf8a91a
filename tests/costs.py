"""What an operation costs, as counts that do not depend on the machine: statements, Python calls, characters.

Statements are those that libpq sends to PostgreSQL, with those that control transactions. Python calls are frames that
are entered in the thread of the operation; those of the tests' own wrappers are left out. Characters are those of the
answer.
"""

from __future__ import annotations

import inspect
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from django.db import connection

TABLE = Path(__file__).parent / "data" / "costs.md"
HEAD = """\
# What operations cost

Counts of `tests/test_costs.py`, by Python {version}: statements sent to PostgreSQL, Python calls, and characters of the
answer. `make costs` writes this file. A change that raises a row says why in its commit.

| operation | statements | Python calls | characters |
|---|---|---|---|
"""
ROW = re.compile(r"\| ([^|]+) \| (\d+) \| (\d+) \| (\d+) \|")
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
# Each Execute or Query that the client sends is a statement. Empty ones test a connection.
STATEMENT = re.compile(r"\tF\t\d+\t(?:Execute|Query)\t(?! \"\"$)", re.MULTILINE)
OWN = (str(Path(__file__).parent), inspect.__file__)


@dataclass(frozen=True)
class Cost:
    statements: int
    calls: int
    characters: int


def measure(operation: Callable[[], str]) -> Cost:
    """Return the cost of an operation that returns its answer."""
    return Cost(_statements(operation), *_calls(operation))


def _statements(operation: Callable[[], str]) -> int:
    with tempfile.TemporaryFile() as file:
        connection.ensure_connection()
        raw: Any = connection.connection.pgconn
        raw.trace(file.fileno())
        try:
            operation()
        finally:
            raw.untrace()
        file.seek(0)
        return len(STATEMENT.findall(file.read().decode(errors="replace")))


def _calls(operation: Callable[[], str]) -> tuple[int, int]:
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        if event == "call" and not frame.f_code.co_filename.startswith(OWN):
            count += 1

    sys.setprofile(note)
    try:
        answer = operation()
    finally:
        sys.setprofile(None)
    return count, len(answer)


def table(costs: dict[str, Cost]) -> str:
    rows = [f"| {name} | {cost.statements} | {cost.calls} | {cost.characters} |\n" for name, cost in costs.items()]
    return HEAD.format(version=VERSION) + "".join(rows)


def recorded() -> dict[str, Cost]:
    rows = ROW.findall(TABLE.read_text(encoding="utf-8"))
    return {name: Cost(int(statements), int(calls), int(characters)) for name, statements, calls, characters in rows}


def recorded_version() -> str:
    match = re.search(r"by Python (\d+\.\d+)", TABLE.read_text(encoding="utf-8"))
    return match[1] if match else ""
