"""`up` lives on, whatever happens to the processes and the database that it looks after."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from django.db import OperationalError, connection

from memory_project.management.commands import up
from memory_project.management.commands.up import Command, Process, ProcessGroup

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessGroup]:
    monkeypatch.setattr(up, "close_old_connections", lambda: None)  # the connection of the test
    monkeypatch.setattr(Process, "plan_restart", lambda process: setattr(process, "due", 0.0))
    run = ProcessGroup(tmp_path / "up.json", None, owns_database=False)
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    run.start_processes({"web": sleeping, "worker": sleeping})
    yield run
    for process in run.processes.values():
        process.child.kill()
        process.child.wait()


def ended(run: ProcessGroup, name: str) -> Process:
    process = run.processes[name]
    process.child.kill()
    process.child.wait()
    return process


def test_a_lost_connection_does_not_end_it(run: ProcessGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Mock(side_effect=OperationalError("terminating connection due to administrator command"))
    monkeypatch.setattr(up, "async_task", queue)
    monkeypatch.setattr(connection, "close", lambda: None)
    process = ended(run, "web")
    command = Command(stderr=Mock())
    command.look_after(run)
    command.look_after(run)
    assert process.due is None
    assert run.has_gaps  # it is tried again
    queue.side_effect = None
    command.look_after(run)
    is_queued = not run.has_gaps
    assert is_queued
    assert queue.call_args.args == ("memories.tasks.close_gaps",)


@pytest.mark.parametrize("place", ["save", "start"])
def test_a_full_disk_or_process_table_does_not_end_it(
    run: ProcessGroup, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(up, "async_task", Mock())
    ended(run, "worker")
    owner: object = ProcessGroup if place == "save" else Process
    with monkeypatch.context() as patch:
        patch.setattr(owner, place, Mock(side_effect=OSError("No space left on device")))
        messages = Mock()
        Command(stderr=messages).look_after(run)
        assert "No space left on device" in str(messages.write.call_args_list)
    Command(stderr=Mock()).look_after(run)
    assert not run.processes["worker"].died()
    assert str(run.processes["worker"].child.pid) in run.state.read_text()


def test_a_log_that_can_t_be_written_does_not_end_it(run: ProcessGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up, "async_task", Mock())
    process = ended(run, "web")
    command = Command(stderr=Mock(write=Mock(side_effect=OSError("No space left on device"))))
    command.look_after(run)
    command.look_after(run)
    assert not process.died()


def test_one_process_does_not_wait_for_the_restart_of_another(
    run: ProcessGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up, "async_task", Mock())
    monkeypatch.setattr(Process, "plan_restart", lambda process: setattr(process, "due", float("inf")))
    web = ended(run, "web")
    command = Command(stderr=Mock())
    command.look_after(run)
    assert web.due == float("inf")
    monkeypatch.setattr(Process, "plan_restart", lambda process: setattr(process, "due", 0.0))
    ended(run, "worker")
    command.look_after(run)
    assert not run.processes["worker"].died()
