"""Processes that are killed, stopped or started twice."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import psutil

from tests.faults.installation import Installation, eventually
from tests.faults.table import fault
from tests.faults.workload import Workload


@fault("the web process is killed", in_pairs=True)
def web_is_killed(place: Installation, work: Workload) -> None:
    place.kill("web")


@fault("the worker is killed", in_pairs=True)
def worker_is_killed(place: Installation, work: Workload) -> None:
    place.kill("worker")


@fault("the worker is gone while memories are written", silent_s=10)
def worker_is_away(place: Installation, work: Workload) -> None:
    """Tasks wait while the worker stands still, and all of them are done afterwards."""
    workers = [psutil.Process(place.groups()["worker"])]
    workers += workers[0].children(recursive=True)
    for process in workers:
        process.suspend()
    place.run("shell", "--no-imports", "--command", QUEUE_TASKS)
    time.sleep(5)
    assert int(place.sql("SELECT count(*) FROM django_q_ormq")[0][0]) >= TASKS
    for process in workers:
        process.resume()
    _wait_for_tasks(place)


TASKS = 20
QUEUE_TASKS = f"""
from django_q.tasks import async_task
for number in range({TASKS}):
    async_task("memories.tasks.run_index_jobs", group="fault")
"""


def _wait_for_tasks(place: Installation) -> None:
    deadline = time.monotonic() + 120
    while place.sql("SELECT count(*) FROM django_q_task WHERE \"group\" = 'fault' AND success")[0][0] != TASKS:
        assert time.monotonic() < deadline, "tasks that waited for the worker were not done"
        time.sleep(1)


@fault("the database server is killed", in_pairs=True)
def database_is_killed(place: Installation, work: Workload) -> None:
    place.kill_database()


@fault("`up` is killed and started again", in_pairs=True)
def up_is_killed(place: Installation, work: Workload) -> None:
    assert place.process
    place.process.kill()
    place.process.wait()
    eventually(place.start)  # it can't start while the disk is full


@fault("everything is killed at once, as by a loss of power", silent_s=120)
def power_is_lost(place: Installation, work: Workload) -> None:
    place.kill_everything()
    place.start()


@fault("two `up` at once", silent_s=5)
def two_at_once(place: Installation, work: Workload) -> None:
    second = place.run("up", "--no-demo")
    assert second.returncode == 1
    assert "already running" in second.stderr, second.stderr
    other = {**place.environment, "COMMONPLACE_HOME": str(place.home / "other")}
    Path(place.home / "other").mkdir()
    from tests.e2e.processes import ROOT, command

    third = subprocess.run(command("up", "--no-demo"), env=other, cwd=ROOT, capture_output=True, text=True)
    assert "can't be used" in third.stderr, third.stderr


@fault("`up` is stopped and started again while people work", silent_s=90)
def restart(place: Installation, work: Workload) -> None:
    place.stop()
    place.start()


@fault("the web process stands still for 10 s", silent_s=30)
def web_stands_still(place: Installation, work: Workload) -> None:
    web = psutil.Process(place.groups()["web"])
    web.suspend()
    time.sleep(10)
    web.resume()
