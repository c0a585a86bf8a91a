"""Calls of pg_dump and pg_restore, and the owner's connection that they use.

The programs end together with this process: otherwise, the pg_restore of a killed restore would go on and commit.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import psycopg
from django.conf import settings
from django.db import connection

from foundation.database.owner import leads_to_pooler
from memory_project.operating.postgres.server import EmbeddedPostgres, EmbeddedPostgresError, last_line

APPLICATION_NAMES = {"pg_dump": "commonplace backup", "pg_restore": "commonplace restore"}
LIBPQ = {
    "host": "PGHOST",
    "port": "PGPORT",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "dbname": "PGDATABASE",
    "service": "PGSERVICE",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "target_session_attrs": "PGTARGETSESSIONATTRS",
}
# The owner of the tables is subject to row-level security, too, and a backup contains the rows of all people.
SEES_ALL = "-c commonplace.sees_all=on"
PR_SET_PDEATHSIG = 1  # of Linux's prctl(2)


class BackupFailed(Exception):
    """The message is one line for the operator."""


def run(program: str, *arguments: str, parameters: Mapping[str, str] | None = None) -> str:
    """Run pg_dump or pg_restore and return its output. Raises BackupFailed.

    It connects with `parameters`, by default as the owner of the tables. Environment variables pass them on, because
    command-line arguments would show the password to other users of the machine.
    """
    given = owner_parameters() if parameters is None else parameters
    variables = {LIBPQ[name]: value for name, value in given.items()}
    variables |= {"PGOPTIONS": SEES_ALL, "PGAPPNAME": APPLICATION_NAMES[program]}
    path = _path(program)
    process = subprocess.run(
        [path, *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        preexec_fn=_end_with_parent(),  # one call into C, without any lock of this process
    )
    if process.returncode:
        raise BackupFailed(f"{program} failed: {_first_error(process.stderr)}{_advice(path, process.stderr)}")
    return process.stdout


def _advice(path: str, output: str) -> str:
    """Return what to do if the program has sent a setting that the server doesn't know, or ""."""
    if "unrecognized configuration parameter" not in output:
        return ""
    return f". The server is older than version {_major(path)} of the program: install that of the server's on the PATH"


def refuse_pooler() -> None:
    """Raise BackupFailed if pg_dump would meet a pooler: others would get the session that pg_dump has changed."""
    with contextlib.suppress(psycopg.Error):  # pg_dump reports it
        if settings.DATABASE_URL and leads_to_pooler():
            raise BackupFailed("DATABASE_OWNER_URL leads through a pooler: name the address of PostgreSQL itself")


def owner_parameters() -> dict[str, str]:
    """Return the parameters of a connection as the owner of the tables, by their names in libpq."""
    owner = {name.lower(): value for name, value in settings.DATABASE_OWNER.items() if value}
    parameters = {**connection.get_connection_params(), **owner}
    return {name: str(parameters[name]) for name in LIBPQ if parameters.get(name)}


def _end_with_parent() -> Callable[[], Any] | None:
    if sys.platform != "linux":
        return None
    return partial(ctypes.CDLL(None).prctl, PR_SET_PDEATHSIG, signal.SIGKILL)


def _path(program: str) -> str:
    """Return the path of pg_dump or pg_restore, usually of the bundled program.

    With DATABASE_URL, an installed program of the server's major version is preferred, because a newer pg_restore sends
    settings that an older server does not know.
    """
    on_path = shutil.which(program)
    if settings.DATABASE_URL and on_path and _major(on_path) == connection.pg_version // 10_000:  # type: ignore[attr-defined]
        return on_path
    try:
        return str(EmbeddedPostgres(settings.COMMONPLACE_HOME).binaries / program)
    except EmbeddedPostgresError:
        raise BackupFailed(f"{program} is not installed: install the version of your server") from None


def _major(program: str) -> int:
    # the output looks like `pg_dump (PostgreSQL) 18.1 (Debian …)`
    output = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    version_number = re.search(r"\) (\d+)", output)
    return int(version_number[1]) if version_number else 0


def _first_error(output: str) -> str:
    lines: Sequence[str] = [line for line in output.splitlines() if "error" in line.lower()]
    return lines[0].strip()[:300] if lines else last_line(output)[:300]
