"""All checks in their groups, run with a time limit each.

The quick checks read the database and the settings, and a page can run them. The slow ones wait for other systems: the
command runs them, and a worker stores what they find for pages.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from queue import Empty, Queue

from django.conf import settings
from django.db import DatabaseError, connections
from django.utils.translation import gettext, gettext_noop

from foundation.database.transaction_settings import limit_statements
from memory_project.operating.doctor import database, recall, storage, systems, web, work
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
from memory_project.operating.examinations import services as examinations
from memory_project.operating.postgres.server import EmbeddedPostgres, EmbeddedPostgresError

LIMIT_S = 4.0
THREAD = "doctor"  # name of the threads that run checks
GROUPS = {
    "database": gettext_noop("Database"),
    "work": gettext_noop("Background work"),
    "recall": gettext_noop("Recall"),
    "web": gettext_noop("Web server"),
    "systems": gettext_noop("Other systems"),
    "storage": gettext_noop("Storage and backups"),
}
NAMES = {
    "server": gettext_noop("Server"), "primary": gettext_noop("Primary server"), "role": gettext_noop("Role"),
    "grants": gettext_noop("Privileges"), "extension": gettext_noop("pgvector"),
    "migrations": gettext_noop("Migrations"), "row_security": gettext_noop("Row-level security"),
    "dimension": gettext_noop("Vector dimensions"), "text_search": gettext_noop("Text search"),
    "indexes": gettext_noop("Indexes"), "pooler": gettext_noop("Pooler"), "connections": gettext_noop("Connections"),
    "clock": gettext_noop("Clock"), "worker": gettext_noop("Worker"), "queue": gettext_noop("Queue"),
    "failures": gettext_noop("Failed tasks"), "index_jobs": gettext_noop("Index jobs"),
    "provider": gettext_noop("Embedding model"), "model_answers": gettext_noop("Trial of the embedding model"),
    "stored_vectors": gettext_noop("Stored vectors"), "address": gettext_noop("Address"),
    "proxies": gettext_noop("Proxies"), "hosts": gettext_noop("Host names"), "secret_key": gettext_noop("Secret key"),
    "certificate": gettext_noop("Certificate"), "public_address": gettext_noop("Public address"),
    "mail": gettext_noop("Mail server"), "catalog": gettext_noop("Data catalog"),
    "last_comparison": gettext_noop("Comparison with the catalog"), "data_disk": gettext_noop("Disk of the data"),
    "backup_disk": gettext_noop("Disk of the backups"), "last_backup": gettext_noop("Latest backup"),
    "restore_test": gettext_noop("Trial restore"),
}  # fmt: skip


@dataclass(frozen=True)
class ExaminationResult:
    """The finding of one check. `at` is when a worker found it, or None if it was found just now."""

    group: str
    name: str
    finding: HealthFinding
    at: datetime | None = None

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
        return str(text(NAMES[self.name]))

    @property
    def group_title(self) -> str:
        return str(text(GROUPS[self.group]))


Check = tuple[str, str, Callable[[], HealthFinding]]  # group, name, and the check
SLOW: Sequence[Check] = (
    ("recall", "model_answers", recall.model_answers),
    ("web", "certificate", web.certificate),
    ("web", "public_address", web.public_address),
    ("systems", "mail", systems.mail),
    ("systems", "catalog", systems.catalog),
)
HERE: Sequence[Check] = (  # neither the database nor other systems are asked
    ("recall", "provider", recall.provider),
    ("web", "address", web.address),
    ("web", "proxies", web.proxies),
    ("web", "hosts", web.hosts),
    ("web", "secret_key", web.secret_key),
    ("storage", "data_disk", storage.data_disk),
    ("storage", "backup_disk", storage.backup_disk),
    ("storage", "last_backup", storage.last_backup),
    ("storage", "restore_test", storage.restore_test),
)
OF_FACTS = (
    database.primary, database.role, database.grants, database.extension, database.row_security,
    database.text_search, database.indexes, database.pooler, database.clock,
)  # fmt: skip
OF_WORK = (work.worker, work.queue, work.failures, work.index_jobs)
OF_TABLES: Sequence[Check] = (
    ("database", "dimension", database.dimension),
    ("recall", "stored_vectors", recall.stored_vectors),
    ("systems", "last_comparison", systems.last_comparison),
)


def of_database(processes: int = 1) -> Iterator[ExaminationResult]:
    """Run the checks of the database on the connection of this thread, in eight statements.

    If it does not answer, the other checks say that they were not made. If it is not migrated, those of tables do.
    """
    try:
        require_running_server()
        facts = read_facts()
    except (DatabaseError, EmbeddedPostgresError) as error:
        yield ExaminationResult("database", "server", database.unreachable(error))
        for group, name in _names_of_database()[1:]:
            yield ExaminationResult(group, name, needs_database())
        return
    yield ExaminationResult("database", "server", database.server(facts))
    for check in OF_FACTS:
        yield ExaminationResult("database", check.__name__, check(facts))
    yield ExaminationResult("database", "connections", database.connections(facts, processes=processes))
    yield _guarded("database", "migrations", database.migrations)
    try:
        state = work.read()
    except DatabaseError:
        state = None
    for check_of_work in OF_WORK:
        yield ExaminationResult("work", check_of_work.__name__, check_of_work(state) if state else _without_tables())
    for group, name, check_of_tables in OF_TABLES:
        yield _guarded(group, name, check_of_tables)


def require_running_server() -> None:
    """Raise EmbeddedPostgresError if the embedded server does not run, instead of starting it with a connection."""
    if not settings.DATABASE_URL and not EmbeddedPostgres(settings.COMMONPLACE_HOME).accepts_connections():
        raise EmbeddedPostgresError("the embedded PostgreSQL is not running")


def _names_of_database() -> list[tuple[str, str]]:
    names = [("database", name) for name in ("server", *(check.__name__ for check in OF_FACTS), "connections")]
    names += [("database", "migrations"), *(("work", check.__name__) for check in OF_WORK)]
    return names + [(group, name) for group, name, _ in OF_TABLES]


def _without_tables() -> HealthFinding:
    return unknown(gettext_noop("not checked, because its tables could not be read: see Migrations and Privileges"))


def _guarded(group: str, name: str, check: Callable[[], HealthFinding]) -> ExaminationResult:
    """Run a check. An error is a finding, too, because one broken check must not hide the others."""
    try:
        return ExaminationResult(group, name, check())
    except DatabaseError:
        return ExaminationResult(group, name, _without_tables())
    except Exception as error:
        found = text(gettext_noop("the check itself failed: %(error)s"), error=f"{type(error).__name__}: {error}")
        return ExaminationResult(
            group, name, problem(found, text(gettext_noop("Report it with the output of this command.")))
        )


def here() -> Iterator[ExaminationResult]:
    for check in HERE:
        yield _guarded(*check)


def slow() -> Iterator[ExaminationResult]:
    for check in SLOW:
        yield _guarded(*check)


def everything(*, processes: int = 1) -> list[ExaminationResult]:
    """Run all checks side by side and return their results in the order of the groups.

    Checks of other systems have LIMIT_S together, and those of the database LIMIT_S each. A check without a result by
    then counts as unknown. `is_unfinished` tells whether it still runs.
    """
    others: Queue[ExaminationResult] = Queue()
    for check in SLOW:
        _start(partial(_one, check), others)
    _start(here, others)
    from_database: Queue[ExaminationResult] = Queue()
    _start(partial(_limited, processes), from_database)
    deadline = time.monotonic() + LIMIT_S
    results = {result.name: result for result in _collect(from_database, len(_names_of_database()), lambda: LIMIT_S)}
    left = len(SLOW) + len(HERE)
    results |= {result.name: result for result in _collect(others, left, lambda: deadline - time.monotonic())}
    late = [ExaminationResult(group, name, _too_late(name)) for group, name in _all_names() if name not in results]
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
    """Run the quick checks, and return the slow ones as a worker has last found them."""
    stored = examinations.stored(name for _, name, _ in SLOW)
    results = [*of_database(), *here()]
    for group, name, _ in SLOW:
        finding, at = stored.get(name, (None, None))
        results.append(ExaminationResult(group, name, from_json(finding) if finding else _not_yet(), at))
    return in_order(results)


def store_slow() -> list[ExaminationResult]:
    """Run the slow checks and store what they find, for pages. A worker calls this on a schedule."""
    results = list(slow())
    examinations.save({result.name: result.finding.as_json() for result in results})
    return results


def in_order(results: Iterable[ExaminationResult]) -> list[ExaminationResult]:
    groups = list(GROUPS)
    names = list(NAMES)
    return sorted(results, key=lambda result: (groups.index(result.group), names.index(result.name)))


def worst(results: Iterable[ExaminationResult]) -> FindingState:
    """Return the worst state. What could not be checked counts as little as what is well."""
    states = {result.finding.state for result in results}
    return next((state for state in (FindingState.PROBLEM, FindingState.WARNING) if state in states), FindingState.OK)


def _all_names() -> list[tuple[str, str]]:
    return [*((group, name) for group, name, _ in (*SLOW, *HERE)), *_names_of_database()]


def _start(lane: Callable[[], Iterator[ExaminationResult]], found: Queue[ExaminationResult]) -> None:
    def run() -> None:
        try:
            for result in lane():
                found.put(result)
        finally:
            connections.close_all()

    threading.Thread(target=run, name=THREAD, daemon=True).start()


def _one(check: Check) -> Iterator[ExaminationResult]:
    yield _guarded(*check)


def _limited(processes: int) -> Iterator[ExaminationResult]:
    limit_statements(LIMIT_S)
    yield from of_database(processes)


def _too_late(name: str) -> HealthFinding:
    if name == "server":
        return database.unreachable(f"no result within {LIMIT_S:g} s")
    return unknown(gettext_noop("no result within %(seconds)s s"), seconds=LIMIT_S)


def _not_yet() -> HealthFinding:
    return unknown(gettext_noop("no worker has checked it yet"))
