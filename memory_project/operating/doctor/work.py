"""Checks of background work: whether a worker runs, how long tasks wait, and what fails."""

from __future__ import annotations

from django.utils.translation import gettext_noop

from memory_project.operating.doctor.findings import HealthFinding, ok, problem, text, unknown, warning
from memory_project.operating.doctor.registry import Reads, health_check
from memory_project.operating.doctor.table_facts import TableFacts

SLOW_S, STUCK_S = 10 * 60, 60 * 60  # age of the oldest task that waits
MIN_THIRD = 2  # readings in a third of them
LONG_QUEUE = 100  # tasks; a shorter queue is worked off within minutes
LONG_TURN_S = 15 * 60  # a turn that writes an export may take minutes


@health_check("work", gettext_noop("Worker"), Reads.TABLES)
def worker(tables: TableFacts) -> HealthFinding:
    if tables.overdue:
        found = text(gettext_noop("no worker is running: %(count)s schedules are overdue"), count=tables.overdue)
        return problem(
            found, text(gettext_noop("Start a worker with the command `qcluster`, or everything with `up`."))
        )
    if tables.idle_s is None:
        return ok(gettext_noop("no schedule is overdue, and no task has run yet"))
    return ok(gettext_noop("the last task ended %(seconds)s s ago"), seconds=round(max(tables.idle_s, 0)))


@health_check("work", gettext_noop("Queue"), Reads.TABLES)
def queue(tables: TableFacts) -> HealthFinding:
    waiting = tables.waiting_s or 0.0
    values = {"count": tables.queued, "minutes": round(waiting / 60)}
    if waiting < SLOW_S:
        return ok(gettext_noop("%(count)s tasks are queued"), count=tables.queued)
    found = text(gettext_noop("%(count)s tasks are queued, the oldest for %(minutes)s minutes"), **values)
    fix = text(
        gettext_noop("Start more workers, or raise WORKERS. The page Tables → Queued tasks shows which tasks wait.")
    )
    if waiting > STUCK_S:
        return problem(found, fix)
    return warning(found, fix)


@health_check("work", gettext_noop("Growth of the queue"), Reads.TABLES)
def queue_growth(tables: TableFacts) -> HealthFinding:
    """Say that more tasks are added than workers take. A queue that only swings between two lengths does not grow."""
    readings = tables.queue_readings
    third = len(readings) // 3
    if third < MIN_THIRD:
        return unknown(gettext_noop("a worker notes the queue's length every ten minutes; an hour of it is needed"))
    first = max(length for _, length in readings[:third])
    last = min(length for _, length in readings[-third:])
    hours = round((readings[-1][0] - readings[0][0]) / 3_600, 1)
    if last < LONG_QUEUE or last < 2 * first:
        return ok(gettext_noop("the queue has not grown in the last %(hours)s hours"), hours=hours)
    found = text(
        gettext_noop("the queue has grown from %(first)s to %(last)s tasks in %(hours)s hours"),
        first=round(first),
        last=round(last),
        hours=hours,
    )
    return warning(found, text(gettext_noop("Start more workers, or raise WORKERS, before tasks become late.")))


@health_check("work", gettext_noop("Unreadable tasks"), Reads.TABLES)
def unreadable_tasks(tables: TableFacts) -> HealthFinding:
    if not tables.unreadable:
        return ok(gettext_noop("workers can read all queued tasks"))
    found = text(gettext_noop("%(count)s queued tasks can't be read by any worker"), count=tables.unreadable)
    return problem(found, text(gettext_noop("Run all machines with the same secret key and the same version.")))


@health_check("work", gettext_noop("Failed tasks"), Reads.TABLES)
def failures(tables: TableFacts) -> HealthFinding:
    if not tables.failed:
        return ok(gettext_noop("no task has failed in the last day"))
    found = text(gettext_noop("%(count)s tasks have failed in the last day"), count=tables.failed)
    return warning(found, text(gettext_noop("The page Tables → Failed tasks shows their errors.")))


@health_check("work", gettext_noop("Jobs"), Reads.TABLES)
def jobs(tables: TableFacts) -> HealthFinding:
    page = text(gettext_noop("The page Tables → Jobs shows whose they are, and the errors."))
    if tables.defective_jobs:
        found = text(
            gettext_noop("%(count)s jobs were stopped by an unexpected error, and are tried again"),
            count=tables.defective_jobs,
        )
        return warning(found, page)
    waiting = tables.job_wait_s or 0.0
    if waiting > LONG_TURN_S:
        values = {"count": tables.jobs, "minutes": round(waiting / 60)}
        found = text(
            gettext_noop("of %(count)s jobs, one has waited for its turn for %(minutes)s minutes, or has a long turn"),
            **values,
        )
        return warning(found, text(gettext_noop("Start more workers, or raise WORKERS.")))
    return ok(gettext_noop("%(count)s jobs of people are left, and none waits long"), count=tables.jobs)


@health_check("work", gettext_noop("Index jobs"), Reads.TABLES)
def index_jobs(tables: TableFacts) -> HealthFinding:
    fix = text(gettext_noop("The page Indexing shows the causes, and runs the jobs again."))
    if tables.failed_jobs:
        found = text(
            gettext_noop("%(count)s texts could not be embedded, and are found by their words only"),
            count=tables.failed_jobs,
        )
        return warning(found, fix)
    if tables.late_jobs:
        return warning(
            text(gettext_noop("%(count)s index jobs wait for more than half an hour"), count=tables.late_jobs), fix
        )
    return ok(gettext_noop("no index job has failed or is late"))
