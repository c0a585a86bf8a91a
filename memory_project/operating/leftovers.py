"""Processes of a run of `up` that was killed, so that the next run can end them.

The run saves its process groups in `up.json`. A process group is known again by the command lines of its processes and
by the time at which its first process started, because numbers of processes are used again: in a container that is
started anew, they begin at 1.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

MARKS = ("manage.py serve", "memory_project serve", "qcluster", "watch_catalog")
STARTED_TOLERANCE_S = 2.0  # a start is computed from the time of boot, which moves when the clock is set


@dataclass(frozen=True)
class LeftoverGroup:
    """A process group of a run. `started` is when its first process started, in seconds since 1970; 0: unknown."""

    number: int
    started: float = 0.0

    def runs(self) -> bool:
        return any(True for _ in self.processes())

    def processes(self) -> Iterator[psutil.Process]:
        """Yield the running processes of the group. Yields none if the number now belongs to other processes."""
        first = started_at(self.number)
        if self.started and first and abs(first - self.started) > STARTED_TOLERANCE_S:
            return
        for process in psutil.process_iter():
            try:
                if os.getpgid(process.pid) == self.number and _is_ours(process):
                    yield process
            except (psutil.Error, OSError):  # it has ended meanwhile, or belongs to another account
                continue

    def end(self) -> None:
        """Send SIGTERM, and SIGKILL to whatever still runs after some seconds."""
        for number, patience in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 1.0)):
            if not self.runs():
                return
            try:
                os.killpg(self.number, number)
            except (ProcessLookupError, PermissionError):
                return
            deadline = time.monotonic() + patience
            while time.monotonic() < deadline and self.runs():
                time.sleep(0.1)


def _is_ours(process: psutil.Process) -> bool:
    if process.status() == psutil.STATUS_ZOMBIE:
        return False
    command = " ".join(process.cmdline())
    return any(mark in command for mark in MARKS)


def started_at(pid: int) -> float:
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return 0.0


@dataclass(frozen=True)
class ServerRun:
    """What `up.json` says of a run: its process groups, and whether it had started the database."""

    groups: tuple[LeftoverGroup, ...] = ()
    owns_database: bool = False


def read(state: Path) -> ServerRun:
    """Return the saved run. A file that is missing or damaged counts as a run without processes."""
    try:
        record = json.loads(state.read_text())
        started: dict[str, Any] = record.get("started", {})
        groups = tuple(
            LeftoverGroup(int(number), float(started.get(name, 0))) for name, number in record["groups"].items()
        )
        return ServerRun(groups, bool(record.get("postgres")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ServerRun()


def save(state: Path, groups: dict[str, int], *, owns_database: bool) -> None:
    """Save the process groups of this run by name, replacing the file as a whole."""
    started = {name: started_at(number) for name, number in groups.items()}
    record = {"pid": os.getpid(), "groups": groups, "started": started, "postgres": owns_database}
    draft = state.with_suffix(".draft")
    draft.write_text(json.dumps(record))
    draft.replace(state)


def forget(state: Path) -> None:
    with contextlib.suppress(OSError):
        state.unlink()
