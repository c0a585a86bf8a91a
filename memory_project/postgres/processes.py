"""Which process is the server's, and whether it lives."""

from __future__ import annotations

from pathlib import Path

import psutil


def is_postgres(pid: int, data: Path) -> bool:
    """Whether this process is a PostgreSQL server of that data folder."""
    try:
        command = " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return False
    return "postgres" in command and str(data) in command


def process_of(pid: int | None) -> psutil.Process | None:
    try:
        return psutil.Process(pid) if pid else None
    except psutil.Error:
        return None


def is_alive(process: psutil.Process) -> bool:
    """Whether it runs still: not another one with its number, nor a dead one that nobody has waited for."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
