"""Files through which the processes of one machine share their metrics, so that any of them can report all.

Each process writes files with its id in their names (prometheus_client's multiprocess mode). The numbers of processes
that have ended are added to the files of a process 0: the number of files stays small, and no counter goes back.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from prometheus_client import values
from prometheus_client.mmap_dict import MmapedDict

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # prometheus_client reads it


def enable() -> None:
    """Let the metrics that this process declares from now on be written to files. May be called again."""
    # by host name, because processes of another machine or container may have the same ids
    folder = Path(os.environ.setdefault(VARIABLE, str(settings.COMMONPLACE_HOME / "metrics" / host())))
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    untyped: Any = values
    if not untyped.ValueClass._multiprocess:  # the library was imported before the variable was set
        untyped.ValueClass = untyped.MultiProcessValue()
    with locked(folder):
        files = _files(folder)
        if not any(map(_is_running, files.values())):
            for file in files:  # of an earlier run
                file.unlink()


def host() -> str:
    return socket.gethostname().replace("/", "_") or "localhost"


def folder() -> Path | None:
    """Return the folder of the files, or None if this process keeps its metrics to itself."""
    path = os.environ.get(VARIABLE)
    return Path(path) if path and Path(path).is_dir() else None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    with open(folder / "lock", "a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def merge_ended(folder: Path) -> None:
    """Add the numbers of ended processes to those of process 0, and drop their gauges. Call it while `locked`."""
    for file, pid in _files(folder).items():
        if pid == 0 or _is_running(pid):
            continue
        kind = file.name.partition("_")[0]
        if kind in ("counter", "histogram"):
            _add(file, folder / f"{kind}_0.db")
        file.unlink()


def _add(file: Path, total: Path) -> None:
    untyped: Any = MmapedDict
    target = untyped(str(total))
    try:
        for key, value, _, _ in untyped.read_all_values_from_file(str(file)):
            target.write_value(key, target.read_value(key)[0] + value, 0.0)
    finally:
        target.close()


def _files(folder: Path) -> dict[Path, int]:
    """Return the id of the process that has written each file."""
    names = {file: file.stem.rpartition("_")[2] for file in folder.glob("*.db")}
    return {file: int(pid) for file, pid in names.items() if pid.isdecimal()}


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # a process of another user
        return True
    return pid > 0
