"""Trial restore of a backup into a temporary database server."""

from __future__ import annotations

import logging
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from django.db import DatabaseError

from memory_project.__main__ import program
from memory_project.operating.backups import archive, erased, restoring
from memory_project.operating.backups.folders import TRIAL, remove_server
from memory_project.operating.backups.models import Backup
from memory_project.operating.backups.programs import SEES_ALL, BackupFailed
from memory_project.operating.postgres.server import DATABASE, OWNER, EmbeddedPostgres, EmbeddedPostgresError, last_line

log = logging.getLogger(__name__)


def verify(file: Path) -> int:
    """Restore a backup into a temporary server of the packaged PostgreSQL, and remove it afterwards.

    Returns the number of rows. Raises BackupFailed if the file is damaged, if rows are missing, or if the migrations
    fail. The result is saved if the database knows the backup.
    """
    with archive.unpacked(file) as (folder, manifest):
        try:
            archive.refuse_newer(manifest)
            erased.erased_since(file)
            rows = _restore(folder, manifest)
        except (BackupFailed, EmbeddedPostgresError, psycopg.Error) as error:
            problem = str(error).strip().splitlines()[0]
            _save(manifest, problem)
            raise BackupFailed(f"{file} can't be restored: {problem}") from None
    _save(manifest, "")
    return rows


def _restore(folder: Path, manifest: dict[str, Any]) -> int:
    home = folder / TRIAL
    home.mkdir()
    server = EmbeddedPostgres(home)
    try:
        server.ensure_running()
        parameters = {"host": str(server.socket_dir), "user": OWNER, "dbname": DATABASE}
        restoring.load(folder, parameters, DATABASE)
        with psycopg.connect(**parameters, options=SEES_ALL) as owner:  # type: ignore[arg-type]  # only strings
            rows = archive.count_rows(owner)
        compare(rows, manifest.get("rows", {}))
        _migrate(home, (folder / archive.KEY).read_text())
    finally:
        remove_server(server)
    return sum(rows.values())


def compare(rows: dict[str, int], expected: dict[str, int]) -> None:
    """Raise BackupFailed if a table has not as many rows as the manifest says."""
    wrong = [
        f"{table} has {rows.get(table, 0)} rows, of which {count} were written"
        for table, count in sorted(expected.items())
        if rows.get(table) != count
    ]
    if wrong:
        raise BackupFailed("; ".join(wrong[:3]))


def _migrate(home: Path, key: str) -> None:
    python, *line = program()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DATABASE_")}
    environment = {**inherited, "COMMONPLACE_HOME": str(home), "SECRET_KEY": key.strip()}
    command = [python, "-W", "ignore", *line, "migrate", "--verbosity", "0"]
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    if process.returncode:
        raise BackupFailed(last_line(process.stderr))


def _save(manifest: dict[str, Any], problem: str) -> None:
    """Save the result. A machine that only verifies backups may have no database."""
    if (backup_id := archive.id_of(manifest)) is None:
        return
    backups = Backup.objects.filter(pk=backup_id)
    try:
        backups.update(verified_at=datetime.now(UTC), verification_problem=problem[:500])
    except DatabaseError as error:
        log.warning("the result was not saved: %s", str(error).strip())
