"""A pool of child processes that run statements on DuckDB files (see duckdb_process.py).

A statement that exceeds its limits ends with its process, and never takes memory from the server's own. Processes are
started when they are needed and reused. They end with the process that started them.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from django.conf import settings

from foundation.operations.errors import Degraded, LimitReached
from foundation.work import progress

ROOT = Path(__file__).parents[2]
WAIT_S = 10.0  # maximum number of seconds to wait for a free process
POLL_S = 0.2
END_S = 5.0  # maximum number of seconds to wait for a process to end by itself


class Process:
    """A running child process. It runs one statement at a time."""

    def __init__(self) -> None:
        self._connection, remote = Pipe()
        self._folder = mkdtemp(prefix="query_sql-")
        self.limits = (settings.ANALYSIS_SQL_MEMORY_MB, settings.ANALYSIS_SQL_DISK_MB)
        arguments = [str(remote.fileno()), self._folder, *map(str, self.limits)]
        try:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "analysis.sql.duckdb_process", *arguments],
                pass_fds=[remote.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # of a stdio server, it belongs to the protocol
                stderr=subprocess.DEVNULL,
                env={"PYTHONPATH": str(ROOT), "TZ": os.environ.get("TZ", "UTC"), "LC_ALL": "C.UTF-8"},
                start_new_session=True,  # Ctrl-C ends the server, which ends its children
            )
        except OSError as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._connection.close()
            raise Degraded(f"no process for DuckDB can be started: {error.strerror}") from None
        finally:
            remote.close()
        self.is_stopped = False

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the response to a request. Raises EOFError if the process ends meanwhile."""
        try:
            self._connection.send_bytes(json.dumps(request).encode())
            return dict(json.loads(self._connection.recv_bytes()))
        except OSError as error:
            raise EOFError from error

    def is_running(self) -> bool:
        return not self.is_stopped and self._popen.poll() is None

    def kill(self) -> None:
        """End the process at once, whatever it does. May be called from any thread."""
        self.is_stopped = True
        self._popen.kill()

    def end(self) -> int:
        """Wait until the process has ended, and remove its temporary files. Returns its exit status."""
        with suppress(OSError):
            self._connection.close()  # tells the process to end
        try:
            status = self._popen.wait(END_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            status = self._popen.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
        return status

    def forget(self) -> None:
        """Close the copy of the connection that a fork has inherited."""
        self._popen.returncode = 0  # the process is not a child of this one
        with suppress(OSError):
            self._connection.close()


class ProcessPool:
    """Lends processes, at most ANALYSIS_SQL_PROCESSES at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._idle: list[Process] = []
        self._lent: set[Process] = set()
        self._starting = 0

    def take(self) -> Process:
        """Return a process for one statement. Give it back with `give_back`.

        Raises LimitReached if all of them stay busy for WAIT_S.
        """
        started = time.monotonic()
        with self._changed:
            while len(self._lent) + self._starting >= settings.ANALYSIS_SQL_PROCESSES:
                waited = time.monotonic() - started
                if waited > WAIT_S:
                    raise LimitReached(
                        f"busy: {settings.ANALYSIS_SQL_PROCESSES} statements on DuckDB files are running "
                        "(ANALYSIS_SQL_PROCESSES); try again in a moment"
                    )
                self._changed.wait(POLL_S)
                progress.tell(waited, WAIT_S, "waiting for a free process")
            while self._idle:
                process = self._idle.pop()
                if process.is_running() and process.limits == (
                    settings.ANALYSIS_SQL_MEMORY_MB,
                    settings.ANALYSIS_SQL_DISK_MB,
                ):
                    self._lent.add(process)
                    return process
                process.end()
            self._starting += 1
        try:
            process = Process()
            with self._changed:
                self._lent.add(process)
            return process
        finally:
            with self._changed:
                self._starting -= 1

    def give_back(self, process: Process, *, reuse: bool) -> None:
        if not reuse:
            process.kill()
            process.end()
        with self._changed:
            self._lent.discard(process)
            if reuse:
                self._idle.append(process)
            self._changed.notify()

    def end(self) -> None:
        with self._changed:
            processes = [*self._idle, *self._lent]
            self._idle = []
        for process in processes:
            process.kill()
            process.end()

    def forget(self) -> None:
        """Start anew in a forked process, whose parent keeps the children."""
        for process in [*self._idle, *self._lent]:
            process.forget()
        self.__init__()  # type: ignore[misc]


POOL = ProcessPool()
atexit.register(lambda: POOL.end())
os.register_at_fork(after_in_child=lambda: POOL.forget())
