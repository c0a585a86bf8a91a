"""The file of a backup: writing, reading and checking it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from psycopg import sql

from memory_project.operating.backups.folders import private_folder
from memory_project.operating.backups.models import Backup
from memory_project.operating.backups.programs import SEES_ALL, BackupFailed, owner_parameters, refuse_pooler, run
from memory_project.operating.shared import secret_key_check

DUMP, KEY, MANIFEST = "database.dump", "secret_key", "manifest.json"
REQUIRED = frozenset({"version", "created_at", "migrations"})  # keys of every manifest since the first version
TABLES = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY relname"


def write(target: Path, *, is_scheduled: bool = False) -> Backup:
    """Write a backup to a new file of mode 0600 and list it in the database. Raises BackupFailed."""
    connection.ensure_connection()  # raises RestoreUnfinished, which pg_dump would not notice
    target = target.absolute()
    if target.exists():
        raise BackupFailed(f"{target} already exists: name another file")
    if not target.parent.is_dir():
        raise BackupFailed(f"the folder {target.parent} does not exist")
    refuse_pooler()
    backup = Backup(pk=uuid4(), path=str(target), host=socket.gethostname(), is_scheduled=is_scheduled)
    with private_folder(target.parent) as folder:
        dump = folder / DUMP
        # The erased memories that the dump still contains are those erased after this moment.
        backup.created_at = datetime.now(UTC)
        rows = _dump(dump)
        manifest = _manifest(backup, rows) | {"sha256": sha256(dump)}
        draft = folder / "draft"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as handle:
            with tarfile.open(fileobj=handle, mode="w") as archive:
                _add(archive, MANIFEST, json.dumps(manifest, indent=2).encode())
                _add(archive, KEY, secret_key_check.key_of_database().encode())
                archive.add(dump, arcname=DUMP)
            handle.flush()
            os.fsync(handle.fileno())
        os.link(draft, target)  # unlike a rename, fails if the target has been created in the meantime
    backup.size = target.stat().st_size
    backup.seen_at = datetime.now(UTC)
    backup.save()
    return backup


def _dump(dump: Path) -> dict[str, int]:
    """Write the dump and return the number of rows of each table in it, both from one snapshot."""
    options = ("--format=custom", "--no-owner", "--no-privileges", "--enable-row-security")
    with psycopg.connect(**owner_parameters(), options=SEES_ALL) as owner:  # type: ignore[arg-type]  # only strings
        owner.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        row = owner.execute("SELECT pg_export_snapshot()").fetchone()
        run("pg_dump", *options, f"--snapshot={row[0] if row else ''}", f"--file={dump}")
        return count_rows(owner)


def count_rows(database: psycopg.Connection[Any]) -> dict[str, int]:
    """Return the number of rows of each table, as far as the connection may see them."""
    tables = [name for (name,) in database.execute(TABLES).fetchall()]
    counts = {}
    for table in tables:
        row = database.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchone()
        counts[table] = row[0] if row else 0
    return counts


def _manifest(backup: Backup, rows: dict[str, int]) -> dict[str, Any]:
    return {
        "id": str(backup.pk),
        "version": version("commonplace"),
        "created_at": backup.created_at.isoformat(timespec="microseconds"),
        "migrations": sorted(".".join(key) for key in MigrationLoader(connection).applied_migrations),
        "rows": rows,
    }


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.mode = 0o600
    archive.addfile(member, BytesIO(content))


def sha256(file: Path) -> str:
    with open(file, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@contextmanager
def unpacked(backup: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Unpack a backup into a private folder in the home. Yields this folder and the manifest. Raises BackupFailed."""
    with private_folder(settings.COMMONPLACE_HOME) as folder:
        try:
            _unpack(backup, folder)
            manifest = _complete(backup, json.loads((folder / MANIFEST).read_text()))
        except (tarfile.TarError, KeyError, ValueError) as error:
            raise BackupFailed(f"{backup} is not a Commonplace backup: {error}") from None
        except OSError as error:
            raise BackupFailed(f"{backup} can't be read: {error.strerror}") from None
        # backups of earlier versions have no checksum
        if manifest.get("sha256", sha256(folder / DUMP)) != sha256(folder / DUMP):
            raise BackupFailed(f"{backup} is damaged: its checksum differs from the one in its manifest")
        yield folder, manifest


def _unpack(backup: Path, folder: Path) -> None:
    with tarfile.open(backup, "r:") as archive:
        for name in (MANIFEST, KEY, DUMP):
            member = archive.extractfile(name)
            if member is None:
                raise KeyError(name)
            with open(folder / name, "wb") as handle:
                shutil.copyfileobj(member, handle)


def read_manifest(backup: Path) -> dict[str, Any]:
    """Return the manifest of a backup without reading the rest. Raises BackupFailed."""
    try:
        with tarfile.open(backup, "r:") as archive:
            member = archive.extractfile(MANIFEST)  # the first entry of the file
            manifest = json.load(member) if member else None
    except (tarfile.TarError, KeyError, ValueError, OSError) as error:
        raise BackupFailed(f"{backup} is not a Commonplace backup: {error}") from None
    return _complete(backup, manifest)


def _complete(backup: Path, manifest: Any) -> dict[str, Any]:
    """Return the manifest. Raises BackupFailed if it lacks what a restore reads."""
    if not isinstance(manifest, dict):
        raise BackupFailed(f"{backup} is not a Commonplace backup")
    if missing := REQUIRED - manifest.keys():
        raise BackupFailed(f"the manifest of {backup} is incomplete: it lacks {', '.join(sorted(missing))}")
    return manifest


def id_of(manifest: dict[str, Any]) -> UUID | None:
    """Return the id of a backup, which those of earlier versions don't have."""
    try:
        return UUID(manifest["id"])
    except (KeyError, ValueError, TypeError, AttributeError):
        return None


def time_of(manifest: dict[str, Any]) -> datetime:
    try:
        return datetime.fromisoformat(manifest["created_at"])
    except (KeyError, ValueError, TypeError):
        raise BackupFailed("the manifest of the backup has no valid time") from None


def refuse_newer(manifest: dict[str, Any]) -> None:
    migrations = {".".join(key) for key in MigrationLoader(None).disk_migrations}
    if newer := sorted(set(manifest["migrations"]) - migrations):
        release = manifest["version"]
        raise BackupFailed(f"the backup is from a newer version ({release}; {newer[0]}): install that version first")
