"""Checks of background work: whether a worker runs, how long tasks wait, and what fails."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection
from django.utils.translation import gettext_noop

from memory_project import schedules
from memory_project.operating.doctor.findings import HealthFinding, ok, problem, text, warning

LATE = timedelta(minutes=10)  # if a schedule is overdue for longer, no worker is running
SLOW_S, STUCK_S = 10 * 60, 60 * 60  # age of the oldest task that waits
JOB_LATE = timedelta(minutes=30)
STATEMENT = """
    SELECT (SELECT count(*) FROM django_q_schedule WHERE repeats <> %(paused)s AND next_run < now() - %(late)s),
        (SELECT extract(epoch FROM now() - max(stopped))::float FROM django_q_task),
        (SELECT count(*) FROM django_q_ormq),
        (SELECT extract(epoch FROM now() - min(lock))::float FROM django_q_ormq WHERE lock < now()),
        (SELECT count(*) FROM django_q_task WHERE NOT success AND stopped > now() - interval '1 day'),
        (SELECT count(*) FROM index_jobs WHERE status = 'failed' AND resolved_at IS NULL),
        (SELECT count(*) FROM index_jobs WHERE status = 'pending' AND next_run_at < now() - %(job_late)s)"""


@dataclass(frozen=True)
class Work:
    overdue: int  # schedules
    idle_s: float | None  # seconds since the last task ended
    queued: int
    waiting_s: float | None  # age of the oldest task that no worker has taken
    failed: int  # tasks in the last day
    failed_jobs: int
    late_jobs: int


def read() -> Work:
    """Read the state of background work in one statement. Raises DatabaseError."""
    values: dict[str, Any] = {"paused": schedules.PAUSED, "late": LATE, "job_late": JOB_LATE}
    with connection.cursor() as cursor:
        cursor.execute(STATEMENT, values)
        return Work(*cursor.fetchone())


def worker(work: Work) -> HealthFinding:
    if work.overdue:
        found = text(gettext_noop("no worker is running: %(count)s schedules are overdue"), count=work.overdue)
        return problem(
            found, text(gettext_noop("Start a worker with the command `qcluster`, or everything with `up`."))
        )
    if work.idle_s is None:
        return ok(gettext_noop("no schedule is overdue, and no task has run yet"))
    return ok(gettext_noop("the last task ended %(seconds)s s ago"), seconds=round(max(work.idle_s, 0)))


def queue(work: Work) -> HealthFinding:
    waiting = work.waiting_s or 0.0
    values = {"count": work.queued, "minutes": round(waiting / 60)}
    if waiting < SLOW_S:
        return ok(gettext_noop("%(count)s tasks are queued"), count=work.queued)
    found = text(gettext_noop("%(count)s tasks are queued, the oldest for %(minutes)s minutes"), **values)
    fix = text(
        gettext_noop("Start more workers, or raise WORKERS. The page Tables → Queued tasks shows which tasks wait.")
    )
    if waiting > STUCK_S:
        return problem(found, fix)
    return warning(found, fix)


def failures(work: Work) -> HealthFinding:
    if not work.failed:
        return ok(gettext_noop("no task has failed in the last day"))
    found = text(gettext_noop("%(count)s tasks have failed in the last day"), count=work.failed)
    return warning(found, text(gettext_noop("The page Tables → Failed tasks shows their errors.")))


def index_jobs(work: Work) -> HealthFinding:
    fix = text(gettext_noop("The page Indexing shows the causes, and runs the jobs again."))
    if work.failed_jobs:
        found = text(
            gettext_noop("%(count)s texts could not be embedded, and are found by their words only"),
            count=work.failed_jobs,
        )
        return warning(found, fix)
    if work.late_jobs:
        return warning(
            text(gettext_noop("%(count)s index jobs wait for more than half an hour"), count=work.late_jobs), fix
        )
    return ok(gettext_noop("no index job has failed or is late"))
