"""Runs the health checks, with a time limit each.

Most checks read the database and the settings, and a page can run them. Those of other systems may be slow: the command
runs them, and a worker stores what they find for pages.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from queue import Empty, Queue
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connections
from django.utils.translation import gettext, gettext_noop

from foundation.database.transaction_settings import limit_statements
from memory_project.operating.doctor import database, machines, recall, storage, systems, web, work  # noqa: F401 - register their checks
from memory_project.operating.doctor.facts import Facts
from memory_project.operating.doctor.facts import read as read_facts
from memory_project.operating.doctor.findings import (
    FindingState,
    HealthFinding,
    from_json,
    needs_database,
    problem,
    text,
    unknown,
)
from memory_project.operating.doctor.registry import CHECKS, GROUPS, HealthCheck, Reads, of_kinds
from memory_project.operating.doctor.table_facts import read as read_tables
from memory_project.operating.examinations import services as examinations
from memory_project.operating.postgres.server import EmbeddedPostgres, EmbeddedPostgresError

LIMIT_S = 4.0
THREAD = "doctor"  # name of the threads that run checks
OF_DATABASE = (Reads.FACTS, Reads.DATABASE, Reads.TABLES)


@dataclass(frozen=True)
class ExaminationResult:
    """The finding of one check. `at` is when a worker found it, or None if it was found just now."""

    check: HealthCheck
    finding: HealthFinding
    at: datetime | None = None

    @property
    def name(self) -> str:
        return self.check.name

    @property
    def needs_a_look(self) -> bool:
        return self.finding.state in (FindingState.PROBLEM, FindingState.WARNING)

    @property
    def color(self) -> str:
        """Return the class of the state's badge."""
        return {FindingState.OK: "ok", FindingState.WARNING: "stale", FindingState.PROBLEM: "failed"}.get(
            self.finding.state, "archived"
        )

    @property
    def label(self) -> str:
        return {
            FindingState.OK: gettext("ok"),
            FindingState.WARNING: gettext("warning"),
            FindingState.PROBLEM: gettext("problem"),
        }.get(self.finding.state, gettext("unknown"))

    @property
    def title(self) -> str:
        return self.check.shown_title

    @property
    def group_title(self) -> str:
        return str(text(GROUPS[self.check.group]))


def of_database(processes: int = 1) -> Iterator[ExaminationResult]:
    """Run the checks of the database on the connection of this thread, most of them on two statements.

    If it does not answer, the other checks say that they were not made. If it is not migrated, those of tables do.
    `processes` is the number of web processes on all machines.
    """
    try:
        require_running_server()
        facts = read_facts(processes)
    except (DatabaseError, EmbeddedPostgresError) as error:
        for check in of_kinds(*OF_DATABASE):
            is_server = check.run is database.server
            yield ExaminationResult(check, database.unreachable(error) if is_server else needs_database())
    else:
        yield from on_facts(facts)


def on_facts(facts: Facts) -> Iterator[ExaminationResult]:
    for check in of_kinds(Reads.FACTS):
        yield guarded(check, facts)
    for check in of_kinds(Reads.DATABASE):
        yield guarded(check)
    try:
        tables = read_tables()
    except DatabaseError:
        tables = None
    for check in of_kinds(Reads.TABLES):
        yield guarded(check, tables) if tables else ExaminationResult(check, _without_tables())


def require_running_server() -> None:
    """Raise EmbeddedPostgresError if the embedded server does not run, instead of starting it with a connection."""
    if not settings.DATABASE_URL and not EmbeddedPostgres(settings.COMMONPLACE_HOME).accepts_connections():
        raise EmbeddedPostgresError("the embedded PostgreSQL is not running")


def _without_tables() -> HealthFinding:
    return unknown(gettext_noop("not checked, because its tables could not be read: see Migrations and Privileges"))


def guarded(check: HealthCheck, *facts: Any) -> ExaminationResult:
    """Run a check. An error is a finding, too, because one broken check must not hide the others."""
    try:
        return ExaminationResult(check, check.run(*facts))
    except DatabaseError:
        return ExaminationResult(check, _without_tables())
    except Exception as error:
        found = text(gettext_noop("the check itself failed: %(error)s"), error=f"{type(error).__name__}: {error}")
        fix = text(gettext_noop("Report it with the output of this command."))
        return ExaminationResult(check, problem(found, fix))


def of_machines() -> Iterator[ExaminationResult]:
    for check in of_kinds(Reads.MACHINES):
        yield guarded(check)


def of_settings() -> Iterator[ExaminationResult]:
    for check in of_kinds(Reads.SETTINGS):
        yield guarded(check)


def of_systems() -> Iterator[ExaminationResult]:
    for check in of_kinds(Reads.SYSTEMS):
        yield guarded(check)


def everything(*, processes: int = 1) -> list[ExaminationResult]:
    """Run all checks side by side and return their results in the order of the groups.

    Checks of other systems have LIMIT_S together, and those of the database LIMIT_S each. A check without a result by
    then counts as unknown. `is_unfinished` tells whether it still runs.
    """
    others: Queue[ExaminationResult] = Queue()
    slow = of_kinds(Reads.SYSTEMS)
    for check in slow:
        _start(partial(_one, check), others)
    _start(of_settings, others)
    _start(of_machines, others)
    from_database: Queue[ExaminationResult] = Queue()
    _start(partial(_limited, processes), from_database)
    deadline = time.monotonic() + LIMIT_S
    asked = of_kinds(*OF_DATABASE)
    results = {result.name: result for result in _collect(from_database, len(asked), lambda: LIMIT_S)}
    left = len(CHECKS) - len(asked)
    results |= {result.name: result for result in _collect(others, left, lambda: deadline - time.monotonic())}
    late = [ExaminationResult(check, _too_late(check)) for check in CHECKS.values() if check.name not in results]
    return in_order([*results.values(), *late])


def _collect(found: Queue[ExaminationResult], count: int, limit_s: Callable[[], float]) -> Iterator[ExaminationResult]:
    """Yield `count` results, or those that are there when the next one takes longer than `limit_s` says."""
    for _ in range(count):
        try:
            yield found.get(timeout=max(limit_s(), 0.001))
        except Empty:
            return


def is_unfinished() -> bool:
    return any(thread.name == THREAD and thread.is_alive() for thread in threading.enumerate())


def for_page() -> list[ExaminationResult]:
    """Run the quick checks, and return those of other systems as a worker has last found them."""
    stored = examinations.stored()
    results = [*of_database(), *of_machines(), *of_settings()]
    for check in of_kinds(Reads.SYSTEMS):
        finding, at = stored.get(check.name, (None, None))
        results.append(ExaminationResult(check, from_json(finding) if finding else _not_yet(), at))
    return in_order(results)


def store_all() -> list[ExaminationResult]:
    """Run all checks, and store what they find for pages and metrics. A worker calls this on a schedule."""
    results = in_order([*of_database(), *of_machines(), *of_settings(), *of_systems()])
    examinations.save({result.name: result.finding.as_json() for result in results})
    return results


def in_order(results: Iterable[ExaminationResult]) -> list[ExaminationResult]:
    groups = list(GROUPS)
    names = list(CHECKS)
    return sorted(results, key=lambda result: (groups.index(result.check.group), names.index(result.name)))


def worst(results: Iterable[ExaminationResult]) -> FindingState:
    """Return the worst state. What could not be checked counts as little as what is well."""
    states = {result.finding.state for result in results}
    return next((state for state in (FindingState.PROBLEM, FindingState.WARNING) if state in states), FindingState.OK)


def _start(lane: Callable[[], Iterator[ExaminationResult]], found: Queue[ExaminationResult]) -> None:
    def run() -> None:
        try:
            for result in lane():
                found.put(result)
        finally:
            connections.close_all()

    threading.Thread(target=run, name=THREAD, daemon=True).start()


def _one(check: HealthCheck) -> Iterator[ExaminationResult]:
    yield guarded(check)


def _limited(processes: int) -> Iterator[ExaminationResult]:
    limit_statements(LIMIT_S)
    yield from of_database(processes)


def _too_late(check: HealthCheck) -> HealthFinding:
    if check.run is database.server:
        return database.unreachable(f"no result within {LIMIT_S:g} s")
    return unknown(gettext_noop("no result within %(seconds)s s"), seconds=LIMIT_S)


def _not_yet() -> HealthFinding:
    return unknown(gettext_noop("no worker has checked it yet"))
