"""Restoring the export of a whole installation, on the command line.

Nothing is staged: an admin restores it, usually into an empty installation. Each batch of rows is one transaction, and
rows that are there already are left as they are, so a run that was killed can be repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import BinaryIO

from foundation.operations.errors import Forbidden
from foundation.people.caller import Caller
from memory_project.exchange.imports.formats import commonplace
from memory_project.exchange.imports.restoring import restore
from memory_project.exchange.imports.rows import ImportedRow

BATCH = 500
MAX_NOTES = 50  # problems that are listed


@dataclass
class InstallationReport:
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)  # (kind, outcome) → rows
    problems: list[str] = field(default_factory=list)
    remarks: set[str] = field(default_factory=set)  # people without accounts, unknown personas


def restore_file(caller: Caller, file: BinaryIO, name: str, report: InstallationReport) -> Iterator[int]:
    """Restore a file, and yield the number of rows after each batch. Raises Forbidden if the caller is no admin."""
    if not caller.is_admin:
        raise Forbidden("only admins can restore an installation")
    for kind, rows in groupby(commonplace.read(file, name), key=lambda row: row.kind):
        while batch := list(islice(rows, BATCH)):
            _restore_batch(caller, "memory" if kind == commonplace.RESTORED_MEMORY else kind, batch, report)
            yield len(batch)


def _restore_batch(caller: Caller, kind: str, batch: list[ImportedRow], report: InstallationReport) -> None:
    for row in batch:
        if row.problem:
            _note(report, row, row.problem)
            report.counts["line", "refused"] += 1
    rows = [row for row in batch if not row.problem]
    data = [{key: value for key, value in row.data.items() if key != commonplace.OF} for row in rows]
    for row, outcome in zip(rows, restore(caller, kind, data, keep_owners=True), strict=True):
        report.counts[kind, outcome.outcome] += 1
        if outcome.outcome == "kept" and outcome.reason:
            report.remarks.add(outcome.reason)
        elif outcome.outcome in ("refused", "conflicting"):
            _note(report, row, f"{outcome.outcome}, {outcome.reason}")


def _note(report: InstallationReport, row: ImportedRow, text: str) -> None:
    if len(report.problems) < MAX_NOTES:
        report.problems.append(f"{row.place}: {text}")
