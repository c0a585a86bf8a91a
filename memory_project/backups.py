"""A backup is one file, readable by its owner alone: the database as pg_dump writes it, the signing key, and a word
about both. Beside it, in FILE.erased, stands what was erased since, so that a restore erases it again."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from memory_project.postgres.server import EmbeddedPostgres, EmbeddedPostgresError, last_line

log = logging.getLogger(__name__)

DUMP, KEY, MANIFEST = "database.dump", "secret_key", "manifest.json"
REGISTRY = "backups"  # in COMMONPLACE_HOME: where backups were written, so that an erasure reaches their lists
SET_UP_ELSEWHERE = (" EXTENSION ", " SCHEMA - public ")  # entries of a dump that a superuser has set up already


class BackupFailed(Exception):
    """One line for the operator."""


# -- what was erased since -------------------------------------------------------------------------------


def erased_list(backup: Path) -> Path:
    return backup.with_name(f"{backup.name}.erased")


def note_erased(record_id: UUID) -> None:
    """Into the list beside each backup that is still where it was written. One that was moved needs its list moved
    too; one that can't be written to is named in the log."""
    for backup in list_backups():
        if not backup.exists():
            continue
        try:
            _append(erased_list(backup), f"{record_id.hex}\n")
        except OSError as error:
            log.error("%s was erased, but not listed beside the backup %s: %s", record_id.hex, backup, error)


def list_backups() -> list[Path]:
    registry = settings.COMMONPLACE_HOME / REGISTRY
    return [Path(line) for line in registry.read_text().splitlines()] if registry.exists() else []


def _append(file: Path, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "a") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())


def erased_since(backup: Path) -> list[UUID]:
    """Raises BackupFailed for a list that is none."""
    file = erased_list(backup)
    try:
        return [UUID(line) for line in file.read_text().split()] if file.exists() else []
    except ValueError:
        raise BackupFailed(f"{file} is not a list of erased memories: each line must be an id") from None


# -- writing ---------------------------------------------------------------------------------------------


def write(target: Path) -> int:
    """Dumps the database, as its owner and in one snapshot, into a new file of mode 0600; returns its size in bytes.
    Raises BackupFailed."""
    target = target.absolute()
    if target.exists():
        raise BackupFailed(f"{target} is there already: name another file")
    if not target.parent.is_dir():
        raise BackupFailed(f"{target.parent} is not a folder")
    with _private_folder(target.parent) as folder:
        dump = folder / DUMP
        _run("pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={dump}")
        draft = folder / target.name
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as handle:
            with tarfile.open(fileobj=handle, mode="w") as archive:
                _add(archive, MANIFEST, json.dumps(_manifest(), indent=2).encode())
                _add(archive, KEY, settings.SECRET_KEY.encode())
                archive.add(dump, arcname=DUMP)
            handle.flush()
            os.fsync(handle.fileno())
        os.link(draft, target)  # refuses to replace what came there meanwhile
    _append(settings.COMMONPLACE_HOME / REGISTRY, f"{target}\n")
    return target.stat().st_size


def _manifest() -> dict[str, Any]:
    return {
        "version": version("commonplace"),
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "migrations": sorted(".".join(key) for key in MigrationLoader(connection).applied_migrations),
    }


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o600
    archive.addfile(member, BytesIO(content))


# -- reading ---------------------------------------------------------------------------------------------


@contextmanager
def opened(backup: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The unpacked backup in a private folder, and its manifest. Raises BackupFailed for a file that is none."""
    with _private_folder(settings.COMMONPLACE_HOME) as folder:
        try:
            _unpack(backup, folder)
            manifest = json.loads((folder / MANIFEST).read_text())
        except (tarfile.TarError, KeyError, ValueError) as error:
            raise BackupFailed(f"{backup} is not a Commonplace backup: {error}") from None
        except OSError as error:
            raise BackupFailed(f"{backup} can't be read: {error.strerror}") from None
        yield folder, manifest


def _unpack(backup: Path, folder: Path) -> None:
    with tarfile.open(backup, "r:") as archive:
        for name in (MANIFEST, KEY, DUMP):
            member = archive.extractfile(name)
            if member is None:
                raise KeyError(name)
            with open(folder / name, "wb") as handle:
                shutil.copyfileobj(member, handle)


def refuse_newer(manifest: dict[str, Any]) -> None:
    migrations = {".".join(key) for key in MigrationLoader(None).disk_migrations}
    if newer := sorted(set(manifest["migrations"]) - migrations):
        release = manifest["version"]
        raise BackupFailed(f"it was made by a newer version ({release}; {newer[0]}): install that one first")


def refuse_full_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        (tables,) = cursor.fetchone()
    if tables:
        raise BackupFailed(
            "this database holds data already: restore into an empty one, with COMMONPLACE_HOME naming a new folder"
        )


def load(folder: Path) -> None:
    """The dump into the empty database, as the tables' owner and all or nothing: what a dump may hold of commands
    runs without a superuser's rights."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        (is_superuser,) = cursor.fetchone()
    if is_superuser:
        raise BackupFailed(
            "a backup is not restored as a superuser of PostgreSQL: name an ordinary role in DATABASE_OWNER_URL"
        )
    with connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
    connection.close()
    entries = _output("pg_restore", "--list", str(folder / DUMP), connects=False)
    selection = folder / "entries"
    selection.write_text(
        "\n".join(line for line in entries.splitlines() if not any(mark in line for mark in SET_UP_ELSEWHERE))
    )
    options = ("--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error", f"--use-list={selection}")
    _run("pg_restore", *options, f"--dbname={connection.settings_dict['NAME']}", str(folder / DUMP))


def keep_key(folder: Path) -> None:
    """The key of the backup signs here too: what was handed out by then stays valid."""
    key: Path = settings.COMMONPLACE_HOME / KEY
    draft = key.with_suffix(".restored")
    draft.unlink(missing_ok=True)
    _append(draft, (folder / KEY).read_text())
    draft.replace(key)


@contextmanager
def _private_folder(parent: Path) -> Iterator[Path]:
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix=".backup-") as folder:  # mode 0700
        yield Path(folder)


# -- the programs ----------------------------------------------------------------------------------------


def _run(program: str, *arguments: str) -> None:
    _output(program, *arguments)


def _output(program: str, *arguments: str, connects: bool = True) -> str:
    environment = {**os.environ, **(_libpq_variables() if connects else {})}
    process = subprocess.run([_binary(program), *arguments], env=environment, capture_output=True, text=True)
    if process.returncode:
        raise BackupFailed(f"{program} failed: {_first_fault(process.stderr)}")
    return process.stdout


def _binary(program: str) -> str:
    """For a server of one's own the machine's program, where it is of that server's major version: a newer pg_restore
    says things that an older server does not know. Otherwise the bundled one."""
    on_path = shutil.which(program)
    if settings.DATABASE_URL and on_path and _major(on_path) == connection.pg_version // 10_000:  # type: ignore[attr-defined]
        return on_path
    try:
        return str(EmbeddedPostgres(settings.COMMONPLACE_HOME).binaries / program)
    except EmbeddedPostgresError:
        raise BackupFailed(f"{program} is not installed, in the server’s version or a later one") from None


def _major(program: str) -> int:
    """18 of `pg_dump (PostgreSQL) 18.1 (Debian …)`."""
    output = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    version_number = re.search(r"\) (\d+)", output)
    return int(version_number[1]) if version_number else 0


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
}


def _libpq_variables() -> dict[str, str]:
    """How libpq finds the database, as its owner; a password is in the environment and in no command line."""
    owner = {name.lower(): value for name, value in settings.DATABASE_OWNER.items() if value}
    parameters = {**connection.get_connection_params(), **owner}
    return {variable: str(parameters[name]) for name, variable in LIBPQ.items() if parameters.get(name)}


def _first_fault(output: str) -> str:
    lines: Sequence[str] = [line for line in output.splitlines() if "error" in line.lower()]
    return lines[0].strip()[:300] if lines else last_line(output)[:300]
