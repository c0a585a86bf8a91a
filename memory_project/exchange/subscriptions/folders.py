"""Files of a folder on the server. Links are never followed, also if somebody puts them in place during the reading."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

from foundation.operations.errors import Invalid, LimitReached
from memory_project.exchange.subscriptions.addresses import allowed_folder
from memory_project.exchange.subscriptions.files import MAX_LISTED, MAX_PATH, SourceFile, is_read, problem_of

# Without O_NONBLOCK, opening a named pipe would wait for a writer.
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
FOLDER_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC


def files(location: str, subfolder: str) -> Iterator[SourceFile]:
    """Yield the files of the folder that are read, sorted by path. Each can be opened until the next is asked for.

    Raises Invalid if the folder is missing, and LimitReached if it has too many files. A folder in it that can't be
    listed is yielded as a file with a problem.
    """
    root = allowed_folder(location)
    handle = os.open(root, FOLDER_FLAGS)
    try:
        for part in Path(subfolder).parts:
            inner = _opened_folder(part, handle, subfolder)
            os.close(handle)
            handle = inner
        yield from _walk(handle, f"{subfolder}/" if subfolder else "", [0])
    finally:
        os.close(handle)


def _opened_folder(name: str, parent: int, subfolder: str) -> int:
    try:
        return os.open(name, FOLDER_FLAGS, dir_fd=parent)
    except OSError as error:
        raise Invalid(f"{subfolder!r} can't be read ({error.strerror})", field="subfolder") from None


def _walk(folder: int, prefix: str, listed: list[int]) -> Iterator[SourceFile]:
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    listed[0] += len(entries)
    if listed[0] > MAX_LISTED:
        raise LimitReached(f"The folder has more than {MAX_LISTED:,} files")
    for entry in entries:
        path = prefix + os.fsencode(entry.name).decode("utf-8", "backslashreplace")
        if entry.is_symlink():
            if is_read(path):
                yield SourceFile(path, 0, _unreadable, "is a link")
        elif entry.is_dir(follow_symlinks=False):
            if len(path) > MAX_PATH:
                yield SourceFile(f"{path[:MAX_PATH]}/", 0, _unreadable, "is nested too deeply")
            elif is_read(f"{path}/x.md"):
                yield from _inner(folder, entry.name, path, listed)
        elif is_read(path):
            size = entry.stat(follow_symlinks=False).st_size
            yield SourceFile(path, size, _opener(folder, entry.name), problem_of(path, size))


def _inner(parent: int, name: str, path: str, listed: list[int]) -> Iterator[SourceFile]:
    try:
        handle = os.open(name, FOLDER_FLAGS, dir_fd=parent)
    except OSError as error:
        yield SourceFile(f"{path}/", 0, _unreadable, f"can't be read ({error.strerror})")
        return
    try:
        yield from _walk(handle, f"{path}/", listed)
    finally:
        os.close(handle)


def _opener(folder: int, name: str) -> Callable[[], AbstractContextManager[BinaryIO]]:
    @contextmanager
    def opened() -> Iterator[BinaryIO]:
        with open(os.open(name, FILE_FLAGS, dir_fd=folder), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(0, "is not a regular file")
            yield file

    return opened


def _unreadable() -> AbstractContextManager[BinaryIO]:
    raise OSError(0, "can't be read")
