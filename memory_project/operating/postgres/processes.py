"""Identification of the server's operating-system process."""

from __future__ import annotations

from pathlib import Path

import psutil


def is_postgres(pid: int, data: Path) -> bool:
    try:
        command = " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return False
    return "postgres" in command and str(data) in command


def get_process(pid: int | None) -> psutil.Process | None:
    try:
        return psutil.Process(pid) if pid else None
    except psutil.Error:
        return None


def is_alive(process: psutil.Process) -> bool:
    # is_running() notices a reused pid; a zombie has ended, but its parent has not waited for it yet
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
