"""Causes of a failed start, read from PostgreSQL's log."""

from __future__ import annotations

import errno
import os
from pathlib import Path

DISK_FULL = "PostgreSQL can't start: the disk is full"
NO_SPACE = "No space left on device"
END_BYTES = 2_000  # of the log, which has the last start


def is_disk_full(error: Exception, log: Path) -> bool:
    if getattr(error, "errno", None) == errno.ENOSPC:
        return True
    return NO_SPACE in str(error) or NO_SPACE in read_end(log)


def is_settling(log: Path) -> bool:
    """Return whether the start failed because child processes of a killed server still run. They end by themselves."""
    return any(sign in read_end(log) for sign in ("shared memory block", "lock file", "still in use"))


def read_end(log: Path) -> str:
    try:
        with open(log, "rb") as handle:
            handle.seek(max(handle.seek(0, os.SEEK_END) - END_BYTES, 0))
            return handle.read().decode(errors="replace")
    except OSError:
        return ""
