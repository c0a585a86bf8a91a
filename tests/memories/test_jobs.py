"""Jobs: turns by person, work that goes on after a kill, defects, and work that has lost its job."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

import pytest
from django.db.models import QuerySet
from django.utils import timezone
from django_q.models import OrmQ

from foundation.database import locks
from foundation.operations.errors import Conflict, Forbidden
from foundation.people.caller import Caller
from foundation.people.models import Persona, PersonaMembership
from foundation.work import jobs
from foundation.work.jobs import JobKind
from foundation.work.models import Job
from memories.models import Batch, MemoryRecord
from memories.writing import bulk_actions
from tests.jobs import create_memories
from tests.mcp_client import environment
from tests.other_processes import run_concurrently, until

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.django_db


class CountingJobs(JobKind[Batch]):
    """Each batch is work of as many slices as it has rows. Notes who has worked, in `done`."""

    name = "count"
    turn_s = 0  # a turn is one slice

    def __init__(self) -> None:
        self.done: list[str] = []
        self.failed: list[str] = []
        self.defect: Exception | None = None

    def unfinished(self) -> QuerySet[Batch]:
        return Batch.objects.filter(act="count", finished_at=None)

    def slices(self, caller: Caller, row: Batch) -> Generator[object, None, None]:
        while len(row.outcomes) < len(row.unit_ids):
            if self.defect:
                raise self.defect
            row.outcomes.append("")
            self.done.append(f"{caller.email.partition('@')[0]} {row.note}")
            if len(row.outcomes) == len(row.unit_ids):
                row.finished_at = timezone.now()
            row.save()
            yield None

    def fail(self, row: Batch, reason: str) -> None:
        Batch.objects.filter(pk=row.pk).update(finished_at=timezone.now())
        self.failed.append(reason)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> CountingJobs:
    kind = CountingJobs()
    known = jobs.kinds()
    monkeypatch.setattr(jobs, "kinds", lambda: {**known, "count": kind})
    return kind


def work(caller: Caller, name: str, slices: int, *, job: bool = True) -> Batch:
    row = Batch.objects.create(
        created_by=caller.email, persona=caller.persona, act="count", note=name, unit_ids=[UUID(int=0)] * slices
    )
    if job:
        jobs.add("count", row.pk, caller.email)
    return row


def test_turns_go_from_person_to_person(counting: CountingJobs, alice: Caller, bob: Caller) -> None:
    for number in range(3):
        work(alice, f"long {number}", 4)
    jobs.give_turn()
    work(bob, "short", 2)
    jobs.run()
    assert counting.done[:5] == ["alice long 0", "bob short", "alice long 1", "bob short", "alice long 2"]
    assert len(counting.done) == 14
    assert not Job.objects.filter(ended_at=None).exists()


def test_short_work_does_not_wait_for_somebody_who_adds_work_all_the_time(
    counting: CountingJobs, alice: Caller, bob: Caller
) -> None:
    work(alice, "long", 50)
    for number in range(5):
        work(bob, f"{number}", 1)
        jobs.give_turn()
        jobs.give_turn()
    assert counting.done.count("alice long") == 5


def test_a_person_has_one_turn_at_a_time(counting: CountingJobs, alice: Caller, bob: Caller) -> None:
    work(alice, "one", 1)
    work(bob, "other", 1)
    busy = locks.exclusive("jobs of", uuid5(NAMESPACE_OID, alice.email), Conflict("has its turn"))
    with busy:  # as another worker
        assert jobs.give_turn()
        assert not jobs.give_turn()
    assert counting.done == ["bob other"]


def test_long_turns_leave_a_worker_for_others(
    counting: CountingJobs, alice: Caller, bob: Caller, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WORKERS = 2
    monkeypatch.setattr(CountingJobs, "is_long", True)
    work(alice, "long", 1)
    with locks.exclusive("long job", UUID(int=0), Conflict("is taken")):
        assert not jobs.give_turn()
    assert jobs.give_turn()


def test_work_that_was_killed_goes_on_where_it_stopped(counting: CountingJobs, alice: Caller) -> None:
    row = work(alice, "long", 4)
    counting.turn_s = 60
    generator = counting.slices(alice, row)
    next(generator)  # a worker that is killed after one slice saves no more
    del generator
    jobs.run()
    assert counting.done == ["alice long"] * 4


def test_a_defect_is_tried_again_and_then_given_up(
    counting: CountingJobs, alice: Caller, bob: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = work(alice, "broken", 2)
    counting.defect = RuntimeError("no such thing")
    jobs.run()
    job = Job.objects.get(target=row.pk)
    assert (job.defects, job.error, job.ended_at) == (1, "RuntimeError: no such thing", None)
    assert job.due_at > timezone.now()
    work(bob, "fine", 1)
    counting.defect = None
    jobs.run()
    assert counting.done == ["bob fine"]  # others do not wait for it
    counting.defect = RuntimeError("no such thing")
    for _ in range(jobs.MAX_DEFECTS):
        Job.objects.update(due_at=timezone.now())
        jobs.run()
    assert counting.failed == ["stopped by a defect after 5 attempts: RuntimeError"]
    assert Job.objects.get(target=row.pk).ended_at


def test_a_defect_that_is_gone_is_forgotten(counting: CountingJobs, alice: Caller) -> None:
    row = work(alice, "shaky", 2)
    counting.defect = RuntimeError("no such thing")
    jobs.run()
    counting.defect = None
    Job.objects.update(due_at=timezone.now())
    jobs.run()
    job = Job.objects.get(target=row.pk)
    assert (job.defects, job.error, bool(job.ended_at)) == (0, "", True)


def test_a_refusal_ends_the_work_with_its_reason(counting: CountingJobs, alice: Caller) -> None:
    work(alice, "refused", 2)
    counting.defect = Forbidden("is not yours any more")
    jobs.run()
    assert counting.failed == ["is not yours any more"]
    assert not Job.objects.filter(ended_at=None).exists()


def test_work_of_a_person_without_the_persona_or_the_account_ends(
    counting: CountingJobs, alice: Caller, bob: Caller, personas: dict[str, Persona], alice_user: Any
) -> None:
    work(alice, "first", 1)
    PersonaMembership.objects.filter(user=alice_user, persona=personas["sales"]).delete()
    jobs.run()
    assert "sales" in counting.failed[0]
    work(alice, "second", 1)
    alice_user.delete()
    jobs.run()
    assert "no longer exists" in counting.failed[1]


def test_work_without_a_job_gets_one(counting: CountingJobs, alice: Caller) -> None:
    row = work(alice, "lost", 1, job=False)
    jobs.go_on()
    assert not counting.done  # it may be about to get its job
    Batch.objects.filter(pk=row.pk).update(created_at=timezone.now() - timedelta(minutes=3))
    jobs.go_on()
    assert counting.done == ["alice lost"]
    assert jobs.adopt() == 0


def test_work_that_is_added_again_gets_its_turn(counting: CountingJobs, alice: Caller) -> None:
    row = work(alice, "twice", 1)
    jobs.run()
    Batch.objects.filter(pk=row.pk).update(unit_ids=[UUID(int=0)] * 2, finished_at=None)
    jobs.add("count", row.pk, alice.email)
    jobs.run()
    assert counting.done == ["alice twice"] * 2
    assert Job.objects.filter(target=row.pk).count() == 1


def test_a_job_of_a_newer_version_waits(counting: CountingJobs, alice: Caller) -> None:
    jobs.add("of a newer version", UUID(int=1), alice.email)
    work(alice, "known", 1)
    jobs.run()
    assert counting.done == ["alice known"]
    assert Job.objects.get(ended_at=None).due_at > timezone.now()


def test_a_task_that_shares_its_worker_goes_on_later(
    counting: CountingJobs, alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "SHARED_S", -1)
    work(alice, "long", 3)
    OrmQ.objects.create(key="commonplace", payload="", lock=timezone.now() - timedelta(seconds=1))
    assert jobs.run() == "0 turns, and jobs are left"
    OrmQ.objects.all().delete()
    assert jobs.run() == "3 turns"


def test_the_rows_that_are_left_of_a_bulk_action_can_be_canceled(
    alice: Caller, bob: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_actions, "AT_ONCE", 2)
    monkeypatch.setattr(bulk_actions, "SLICE_S", -1)
    rows = create_memories(alice, 5)
    batch = bulk_actions.start(alice, act="forget", unit_ids=[row.pk for row in rows])
    monkeypatch.setattr(bulk_actions.BulkActionJobs, "turn_s", 0)
    jobs.give_turn()
    batch = bulk_actions.cancel(alice, batch_id=batch.pk)
    assert batch.outcomes == ["", "", "canceled", "canceled", "canceled"]
    jobs.run()
    assert MemoryRecord.objects.filter(status="archived").count() == 2
    with pytest.raises(Conflict, match="finished already"):
        bulk_actions.cancel(alice, batch_id=batch.pk)
    assert len(bulk_actions.undo(alice, batch_id=batch.pk).unit_ids) == 2


def test_a_slow_row_that_is_running_while_its_batch_is_canceled_keeps_its_outcome(
    alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = create_memories(alice, 3)

    def cancel_meanwhile(caller: Caller, pk: UUID, entered: Any) -> None:
        bulk_actions.cancel(alice, batch_id=Batch.objects.get().pk)

    slow = bulk_actions.BulkAction(cancel_meanwhile, "Slow", "Done slowly", is_slow=True)
    monkeypatch.setitem(bulk_actions.BULK_ACTIONS, "forget", slow)
    batch = bulk_actions.start(alice, act="forget", unit_ids=[row.pk for row in rows])
    assert batch.outcomes == ["", "canceled", "canceled"]
    assert batch.finished_at


KILLED = """
import os, signal, sys
import django
django.setup()
from foundation.database import identity
from foundation.work import jobs
from memories.writing import bulk_actions
identity.run_process_as("command")
bulk_actions.AT_ONCE = 2
run_slice = bulk_actions._run_slice
count = 0
def dying(caller, batch):
    global count
    count += 1
    if count == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return run_slice(caller, batch)
bulk_actions._run_slice = dying
jobs.run()
"""


@pytest.mark.django_db(transaction=True)
def test_a_worker_goes_on_with_the_job_of_one_that_was_killed(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_actions, "SLICE_S", -1)
    rows = create_memories(alice, 9)
    batch = bulk_actions.start(alice, act="forget", unit_ids=[row.pk for row in rows])
    killed = subprocess.run([sys.executable, "-c", KILLED], cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert killed.returncode == -9, killed.stderr
    batch.refresh_from_db()
    assert len(batch.outcomes) == 4

    def has_finished() -> bool:
        jobs.run()  # as each minute: PostgreSQL may not have noticed yet that the other worker was killed
        batch.refresh_from_db()
        return bool(batch.finished_at)

    assert until(has_finished, locks.LEASE_S / 2)
    assert batch.outcomes == [""] * 9
    assert not Job.objects.filter(ended_at=None).exists()


@pytest.mark.django_db(transaction=True)
def test_two_workers_share_the_turns(counting: CountingJobs, alice: Caller, bob: Caller) -> None:
    for person in (alice, bob):
        work(person, "long", 20)
    run_concurrently(jobs.run, jobs.run)
    assert sorted(counting.done) == ["alice long"] * 20 + ["bob long"] * 20
