"""Private folders for work on a backup. Each contains a dump or a key for a while.

The kernel releases the lock in such a folder when its process dies, so what a killed process has left can be told from
what a running one needs.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from django.conf import settings

from memory_project.operating.postgres.server import EmbeddedPostgres, EmbeddedPostgresError

PREFIX = ".backup-"
LOCK = "lock"
TRIAL = "trial"  # home of the server of a trial restore
JUST_MADE_S = 60


@contextlib.contextmanager
def private_folder(parent: Path) -> Iterator[Path]:
    parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers([parent])
    with tempfile.TemporaryDirectory(dir=parent, prefix=PREFIX, ignore_cleanup_errors=True) as name:  # mode 0700
        folder = Path(name)
        with open(folder / LOCK, "w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield folder


def remove_leftovers(parents: Iterable[Path] = ()) -> int:
    """Remove what killed processes have left in the home and in `parents`. Returns the number of folders."""
    removed = 0
    for parent in {settings.COMMONPLACE_HOME, *parents}:
        for folder in parent.glob(f"{PREFIX}*"):
            if folder.is_dir() and not folder.is_symlink() and not _is_in_use(folder):
                _remove(folder)
                removed += 1
    return removed


def _is_in_use(folder: Path) -> bool:
    try:
        with open(folder / LOCK, "r+") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
    except BlockingIOError:
        return True
    except OSError:  # of an earlier version, or its process was killed or is just about to lock it
        return time.time() - folder.stat().st_mtime < JUST_MADE_S


def _remove(folder: Path) -> None:
    # a trial restore was killed; the server may have ended meanwhile
    with contextlib.suppress(EmbeddedPostgresError, OSError):
        remove_server(EmbeddedPostgres(folder / TRIAL))
    shutil.rmtree(folder, ignore_errors=True)


def remove_server(server: EmbeddedPostgres) -> None:
    """Stop the server of a trial restore and remove its data, which may be outside of the folder."""
    if server.data.exists():
        server.stop()
    for place in (server.socket_dir, server.root):
        shutil.rmtree(place, ignore_errors=True)
