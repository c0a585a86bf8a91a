"""Static files, collected on each machine by the server that serves them.

Each version has a folder of its own, so that servers of two versions can run with the same home during an upgrade.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles import finders
from django.core.management import call_command

VERSIONS_KEPT = 2


def ensure_collected() -> bool:
    """Collect the static files if that was not done for this version yet, or if one has changed since.

    Returns whether they were collected. Of several servers that start at once, one does it and the others wait.
    """
    root = Path(settings.STATIC_ROOT)
    if _is_current(root):
        return False
    with _exclusive(root.parent):
        if _is_current(root):  # another server has done it
            return False
        call_command("collectstatic", interactive=False, verbosity=0)
        _delete_earlier_versions(root)
    return True


def _is_current(root: Path) -> bool:
    manifest = root / "staticfiles.json"  # written last
    if not manifest.exists():
        return False
    collected_at = manifest.stat().st_mtime
    return all(path.stat().st_mtime <= collected_at for path in _sources())


def _sources() -> Iterator[Path]:
    for finder in finders.get_finders():
        for name, storage in finder.list([]):
            yield Path(storage.path(name))


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _delete_earlier_versions(root: Path) -> None:
    folders = [path for path in root.parent.iterdir() if path.is_dir()]
    folders.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for folder in folders[VERSIONS_KEPT:]:
        if folder != root:
            shutil.rmtree(folder, ignore_errors=True)
