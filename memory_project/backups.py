"""Backup and restore.

A backup is one tar file that only its owner can read. It contains a dump of the database, the signing key and a
manifest. Next to the backup FILE, the file FILE.erased lists the ids of memories erased after the backup, so that a
restore can erase them again.
"""

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

from memory_project.machines import secret_key_check
from memory_project.postgres.server import EmbeddedPostgres, EmbeddedPostgresError, last_line

log = logging.getLogger(__name__)

DUMP, KEY, MANIFEST = "database.dump", "secret_key", "manifest.json"
# name of a file in COMMONPLACE_HOME that contains the paths of all backups; note_erased() reads it
REGISTRY = "backups"
# entries of a dump that pg_restore skips, because the schema and the extension already exist in the target database
SKIPPED_ENTRIES = (" EXTENSION ", " SCHEMA - public ")


class BackupFailed(Exception):
    """The message is one line for the operator."""


# -- memories erased after a backup ----------------------------------------------------------------------


def erased_list(backup: Path) -> Path:
    return backup.with_name(f"{backup.name}.erased")


def note_erased(record_id: UUID) -> None:
    """Add a memory's id to FILE.erased of each backup FILE that is still where it was written.

    A failure to write a list is logged and not raised.
    """
    for backup in list_backups():
        if not backup.exists():  # the backup was deleted or moved; nothing can be added to the list of a moved backup
            continue
        try:
            _append(erased_list(backup), f"{record_id.hex}\n")
        except OSError as error:
            log.error(
                "could not add the erased memory %s to the .erased file of the backup %s: %s",
                record_id.hex,
                backup,
                error,
            )


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
    """Return the ids listed in FILE.erased. Raises BackupFailed if the file is malformed."""
    file = erased_list(backup)
    try:
        return [UUID(line) for line in file.read_text().split()] if file.exists() else []
    except ValueError:
        raise BackupFailed(f"{file} is not a list of erased memories: each line must be a memory id") from None


# -- writing ---------------------------------------------------------------------------------------------


def write(target: Path) -> int:
    """Write a backup to a new file of mode 0600 and return its size in bytes. Raises BackupFailed."""
    target = target.absolute()
    if target.exists():
        raise BackupFailed(f"{target} already exists: name another file")
    if not target.parent.is_dir():
        raise BackupFailed(f"the folder {target.parent} does not exist")
    with _private_folder(target.parent) as folder:
        dump = folder / DUMP
        _run("pg_dump", "--format=custom", "--no-owner", "--no-privileges", "--enable-row-security", f"--file={dump}")
        draft = folder / target.name
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as handle:
            with tarfile.open(fileobj=handle, mode="w") as archive:
                _add(archive, MANIFEST, json.dumps(_manifest(), indent=2).encode())
                _add(archive, KEY, settings.SECRET_KEY.encode())
                archive.add(dump, arcname=DUMP)
            handle.flush()
            os.fsync(handle.fileno())
        os.link(draft, target)  # unlike a rename, fails if the target has been created in the meantime
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
def unpacked(backup: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Unpack a backup into a private temporary folder. Yields this folder and the manifest. Raises BackupFailed."""
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
        raise BackupFailed(f"the backup is from a newer version ({release}; {newer[0]}): install that version first")


def refuse_nonempty_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        (tables,) = cursor.fetchone()
    if tables:
        raise BackupFailed(
            "the database already contains data: restore into an empty one, or set COMMONPLACE_HOME to a new folder"
        )


def load(folder: Path) -> None:
    """Load the dump into the empty database, as the owner of the tables and in one transaction.

    Raises BackupFailed if pg_restore fails, or if the owner is a superuser, because a manipulated dump may contain any
    SQL command.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        (is_superuser,) = cursor.fetchone()
    if is_superuser:
        raise BackupFailed(
            "a backup can't be restored as a PostgreSQL superuser: name an ordinary role in DATABASE_OWNER_URL"
        )
    with connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
    connection.close()
    entries = _output("pg_restore", "--list", str(folder / DUMP), connects=False)
    selection = folder / "entries"
    selection.write_text(
        "\n".join(line for line in entries.splitlines() if not any(entry in line for entry in SKIPPED_ENTRIES))
    )
    options = ("--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error", f"--use-list={selection}")
    _run("pg_restore", *options, f"--dbname={connection.settings_dict['NAME']}", str(folder / DUMP))


def restore_key(folder: Path) -> None:
    """Install the signing key of the backup, so that sessions and links signed with it stay valid."""
    key: Path = settings.COMMONPLACE_HOME / KEY
    draft = key.with_suffix(".restored")
    draft.unlink(missing_ok=True)
    _append(draft, (folder / KEY).read_text())
    draft.replace(key)
    secret_key_check.adopt(key.read_text().strip())


@contextmanager
def _private_folder(parent: Path) -> Iterator[Path]:
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix=".backup-") as folder:  # mode 0700
        yield Path(folder)


# -- pg_dump and pg_restore ------------------------------------------------------------------------------


def _run(program: str, *arguments: str) -> None:
    _output(program, *arguments)


def _output(program: str, *arguments: str, connects: bool = True) -> str:
    environment = {**os.environ, **(_libpq_variables() if connects else {})}
    process = subprocess.run([_binary(program), *arguments], env=environment, capture_output=True, text=True)
    if process.returncode:
        raise BackupFailed(f"{program} failed: {_first_error(process.stderr)}")
    return process.stdout


def _binary(program: str) -> str:
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


# The owner of the tables is subject to row-level security, too, and a backup contains the rows of all people.
SEES_ALL = "-c commonplace.sees_all=on"


def _libpq_variables() -> dict[str, str]:
    """Return environment variables with which libpq connects to the database as its owner.

    Command-line arguments would show the password to other users of the machine.
    """
    owner = {name.lower(): value for name, value in settings.DATABASE_OWNER.items() if value}
    parameters = {**connection.get_connection_params(), **owner}
    variables = {variable: str(parameters[name]) for name, variable in LIBPQ.items() if parameters.get(name)}
    return variables | {"PGOPTIONS": SEES_ALL}


def _first_error(output: str) -> str:
    lines: Sequence[str] = [line for line in output.splitlines() if "error" in line.lower()]
    return lines[0].strip()[:300] if lines else last_line(output)[:300]
