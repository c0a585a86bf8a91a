"""Jobs: work for a person that takes long, done by workers in turns, so that nobody waits for somebody else's work.

An app registers its kinds of jobs. A kind does its work as a generator that yields after each slice, and saves in each
slice how far it is. So a job may end after any slice, and go on in another process: when its turn is over, when its
worker is killed, and when the work is canceled.

Turns rotate, first among people, and then among the jobs of each person: whoever was served longest ago is next. So
short work ends in its first turns, however much work others have. A person has one turn at a time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator
from contextlib import ExitStack, closing
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any, Generic, TypeVar
from uuid import NAMESPACE_OID, UUID, uuid5

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import F, Max, Model, QuerySet
from django.utils import timezone
from django.utils.module_loading import import_string
from django.utils.translation import gettext
from django_q.models import OrmQ
from django_q.tasks import async_task

from foundation.database import identity, locks
from foundation.database.locks import LeaseLost
from foundation.operations.errors import Conflict, DomainError, Forbidden
from foundation.people.caller import Caller
from foundation.people.permissions import build_caller
from foundation.work.models import Job

RUN = "foundation.work.jobs.run"  # path of the task
TURN_S = 5.0  # seconds after which a turn ends with the next slice
TASK_S = 240.0  # seconds after which a task gives no more turns; less than the queue's timeout
SHARED_S = 15.0  # the same, if other tasks wait in the queue
MAX_DEFECTS = 5  # turns in a row that end with an unexpected error, until the job is given up
DEFECT_PAUSE = timedelta(seconds=10)  # after the first such turn; doubles each time
ADOPTED_AFTER = timedelta(minutes=2)  # after which work that is left gets a job if it has none

Row = TypeVar("Row", bound=Model)

log = logging.getLogger(__name__)


class JobKind(Generic[Row]):
    """A kind of jobs. Subclasses declare the attributes and override the methods."""

    name: str
    since = "created_at"  # the column with the time when a person, or a worker, last did something about a row
    channel = "worker"
    turn_s = TURN_S
    is_long = False  # true if a slice may take minutes; fewer such turns run at a time than there are workers

    def unfinished(self) -> QuerySet[Row]:
        """Return the rows about which work is left."""
        raise NotImplementedError

    def owner_of(self, row: Row) -> str:
        return str(row.created_by)  # type: ignore[attr-defined]  # most rows have the column

    def persona_of(self, row: Row) -> str:
        """Return the persona under which the owner has started the work."""
        return str(row.persona)  # type: ignore[attr-defined]  # most rows have the column

    def is_worked_on(self, row: Row) -> bool:
        """Return whether a process outside of jobs does the work, such as a command."""
        return False

    def caller_of(self, row: Row) -> Caller:
        """Return the owner with the permissions that the owner has now. Raises Forbidden if the work may not go on."""
        person = get_user_model()._default_manager.filter(email=self.owner_of(row)).first()
        if person is None:
            raise Forbidden(gettext("this account no longer exists"))
        return build_caller(person, channel=self.channel, persona=self.persona_of(row))

    def slices(self, caller: Caller, row: Row) -> Generator[object, None, None]:
        """Do the work, and yield after each slice. What a slice has done is saved within `locks.fenced`."""
        raise NotImplementedError

    def fail(self, row: Row, reason: str) -> None:
        """End the work about a row for good, and save why."""
        raise NotImplementedError


_paths: list[str] = []


def register(path: str) -> None:
    """Register the kind of jobs with this dotted path. Only processes that do jobs import it."""
    _paths.append(path)


def kinds() -> dict[str, JobKind[Any]]:
    return {kind.name: kind for kind in map(_kind_at, _paths)}


@cache
def _kind_at(path: str) -> JobKind[Any]:
    kind: JobKind[Any] = import_string(path)()
    return kind


def add(kind: str, target: UUID, owner: str) -> None:
    """Let workers do the work that is left about a row, once the transaction is committed."""
    # The update locks a job whose last turn is just ending, so that it does not end without seeing the row.
    with transaction.atomic():
        now = timezone.now()
        Job.objects.bulk_create(
            [Job(kind=kind, target=target, owner=owner, created_at=now, due_at=now)],
            update_conflicts=True,
            unique_fields=["kind", "target"],
            update_fields=["owner", "due_at", "ended_at"],
        )
        transaction.on_commit(partial(async_task, RUN))


@identity.service("worker")
def adopt() -> int:
    """Add jobs for work that is left and has none, for example after an upgrade. Return how many."""
    count = 0
    for kind in kinds().values():
        known = Job.objects.filter(kind=kind.name, ended_at=None).values("target")
        left = kind.unfinished().filter(**{f"{kind.since}__lt": timezone.now() - ADOPTED_AFTER})
        rows = [row for row in left.exclude(pk__in=known) if not kind.is_worked_on(row)]
        for row in rows:
            add(kind.name, row.pk, kind.owner_of(row))
        count += len(rows)
    return count


def job_of(kind: str, target: UUID) -> Job | None:
    return Job.objects.filter(kind=kind, target=target, ended_at=None).first()


def people_ahead(job: Job) -> int:
    """Return how many other people wait for a turn and have waited longer than the owner of a job."""
    order = [other.owner for other in _in_order()]
    return order.index(job.owner) if job.owner in order else 0


def go_on(target: str = "") -> str:
    """Add jobs that are missing, and give turns. Called by a schedule, in case a task was lost.

    Earlier versions queued a task for each row; their tasks come here, and their `target` is not needed.
    """
    adopted = adopt()
    return f"{adopted} jobs added, {run()}"


# -- turns -------------------------------------------------------------------------------------------------


def run() -> str:
    """Give turns until no job is due, for TASK_S at most, or for SHARED_S if other tasks wait in the queue."""
    started = time.monotonic()
    turns = 0
    while (worked_s := time.monotonic() - started) < TASK_S:
        if worked_s > SHARED_S and OrmQ.objects.filter(lock__lt=timezone.now()).exists():
            break
        if not give_turn():
            return f"{turns} turns"
        turns += 1
    async_task(RUN)
    return f"{turns} turns, and jobs are left"


def give_turn() -> bool:
    """Give one job a turn. Return False if none is due, or if all that are due have their turn elsewhere."""
    for job in _in_order():
        with ExitStack() as stack:
            try:
                # the connection of leases stays open for the second one
                stack.enter_context(locks.exclusive("jobs of", uuid5(NAMESPACE_OID, job.owner), _busy()))
                kind = kinds().get(job.kind)
                if kind is not None and kind.is_long:
                    _take_long_place(stack)
            except Conflict:
                continue
            if not _due().filter(pk=job.pk).exists():  # another worker was faster
                continue
            _run_turn(job)
            return True
    return False


def _busy() -> Conflict:
    return Conflict(gettext("has its turn elsewhere"))


def _take_long_place(stack: ExitStack) -> None:
    """Take one of the places for long turns. Raises Conflict if none is free."""
    for number in range(max(1, settings.WORKERS - 1)):
        try:
            stack.enter_context(locks.exclusive("long job", UUID(int=number), _busy()))
            return
        except Conflict:
            continue
    raise _busy()


def _due() -> QuerySet[Job]:
    return Job.objects.filter(ended_at=None, due_at__lte=timezone.now())


def _in_order() -> list[Job]:
    """Return the next job of each person, in the order in which they get a turn."""
    least = F("turn_at").asc(nulls_first=True)
    jobs = list(_due().order_by("owner", least, "created_at", "pk").distinct("owner"))
    last_turns: dict[str, datetime | None] = dict(
        Job.objects.filter(owner__in=[job.owner for job in jobs])
        .order_by()
        .values_list("owner")
        .annotate(last=Max("turn_at"))
    )

    def place(job: Job) -> tuple[bool, datetime]:
        last = last_turns.get(job.owner)
        return last is not None, last or job.created_at

    return sorted(jobs, key=place)


def _run_turn(job: Job) -> None:
    this = Job.objects.filter(pk=job.pk)
    this.update(turn_at=timezone.now(), turns=F("turns") + 1)
    kind = kinds().get(job.kind)
    if kind is None:  # of a newer version
        this.update(due_at=timezone.now() + timedelta(minutes=5), error="this version does not know the kind of job")
        return
    try:
        row = _unfinished(kind, job)
        if row is not None:
            run_slices(kind, row, kind.turn_s)
    except LeaseLost:  # another worker goes on with it
        return
    except Exception as error:  # a defect of one kind must not keep the others from their turns
        _note_defect(kind, job, error)
    else:
        this.exclude(defects=0).update(defects=0, error="")
    _end_if_finished(kind, job)


def _unfinished(kind: JobKind[Any], job: Job) -> Any:
    with identity.service("worker"):
        return kind.unfinished().filter(pk=job.target).first()


def run_slices(kind: JobKind[Row], row: Row, seconds: float) -> None:
    """Work for about so many seconds, as the owner of the work. A refusal ends the work."""
    ends = time.monotonic() + seconds
    try:
        caller = kind.caller_of(row)
        with identity.acting_as(caller), closing(kind.slices(caller, row)) as slices:
            for _ in slices:
                if time.monotonic() >= ends:
                    return
    except LeaseLost:
        raise
    except DomainError as error:
        with identity.service("worker"):
            kind.fail(row, error.message)


def _note_defect(kind: JobKind[Any], job: Job, error: Exception) -> None:
    log.exception("a turn of the job %s (%s) ended with an unexpected error", job.pk, job.kind)
    defects = job.defects + 1
    text = f"{type(error).__name__}: {error}"[:500]
    pause = DEFECT_PAUSE * 2**job.defects
    Job.objects.filter(pk=job.pk).update(defects=defects, error=text, due_at=timezone.now() + pause)
    if defects >= MAX_DEFECTS and (row := _unfinished(kind, job)):
        with identity.service("worker"):
            kind.fail(row, f"stopped by a defect after {defects} attempts: {type(error).__name__}")


def _end_if_finished(kind: JobKind[Any], job: Job) -> None:
    with transaction.atomic():
        Job.objects.filter(pk=job.pk).update(ended_at=timezone.now())
        if _unfinished(kind, job) is not None:  # read after the update, which waits for a transaction that adds work
            Job.objects.filter(pk=job.pk).update(ended_at=None)
