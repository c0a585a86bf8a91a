"""Restore of a backup into an empty database: all or nothing, and interrupted restores can be continued.

The database is marked from before the first row is loaded until the last erased memory has been erased again (see
foundation/database/restore_marker.py). While the mark stands, nothing but `restore` can use the database. Each step may
be repeated, so a restore can continue after a kill at any line:

1. pg_restore loads the dump in one transaction, so the table of migrations exists if the dump has been loaded.
2. The signing key is installed, later migrations run, and the application's role gets its grants.
3. The memories of FILE.erased are erased again.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.db import connection
from psycopg import sql

from foundation.database import restore_marker
from memory_project.operating.backups import erased
from memory_project.operating.backups.archive import DUMP, KEY, sha256
from memory_project.operating.backups.programs import APPLICATION_NAMES, BackupFailed, run
from memory_project.operating.shared import secret_key_check

# entries of a dump that pg_restore skips, because the schema and the extension already exist in the target database
SKIPPED_ENTRIES = (" EXTENSION ", " SCHEMA - public ")
END_WITHIN_S = 20  # seconds for the sessions of an earlier pg_restore to end; rolling back takes little time

OTHER_SESSIONS = """
    SELECT pid, application_name FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND usename = ANY(%s) ORDER BY pid
"""
END_SESSIONS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = %s
"""
# what an extension has created belongs to the extension
OWN = "NOT EXISTS (SELECT 1 FROM pg_depend WHERE objid = {name}.oid AND deptype = 'e')"
OWN_TABLES = f"""
    SELECT CASE relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE'
        ELSE 'TABLE' END, format('public.%I', relname)
    FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S')
    AND relname <> 'restore_in_progress' AND {OWN.format(name="pg_class")} ORDER BY relkind = 'S'
"""  # noqa: S608 - constants
OWN_FUNCTIONS = f"""
    SELECT 'ROUTINE', oid::regprocedure::text FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace AND {OWN.format(name="pg_proc")}
"""  # noqa: S608 - constants
OWN_TYPES = f"""
    SELECT 'TYPE', oid::regtype::text FROM pg_type
    WHERE typnamespace = 'public'::regnamespace AND typtype IN ('e', 'd') AND {OWN.format(name="pg_type")}
"""  # noqa: S608 - constants


def prepare(file: Path, folder: Path, *, application: str, continues: bool, starts_over: bool) -> None:
    """Mark the database as half restored, or check that the earlier mark allows to go on. Raises BackupFailed.

    Runs as the owner of the tables. `application` is the name of the application's role.
    """
    fingerprint = sha256(folder / DUMP)
    marked = restore_marker.find()
    if marked is None:
        if continues:
            raise BackupFailed("no restore of this database is unfinished: leave out --continue")
        refuse_nonempty_database()
        refuse_other_sessions(application)
        started_at = datetime.now(UTC).isoformat(timespec="seconds")
        restore_marker.write({"file": str(file.absolute()), "sha256": fingerprint, "started_at": started_at})
        return
    if not continues and not starts_over:
        raise BackupFailed(restore_marker.UNFINISHED.format(file=marked["file"]))
    end_earlier_pg_restore()
    if starts_over:
        empty_database()
        restore_marker.remove()
        return prepare(file, folder, application=application, continues=False, starts_over=False)
    if marked.get("sha256") != fingerprint:
        raise BackupFailed(f"the unfinished restore is of another backup, {marked['file']}: name that, or --start-over")


def is_loaded() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('public.django_migrations') IS NOT NULL")
        (exists,) = cursor.fetchone()
    return bool(exists)


def refuse_nonempty_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        (tables,) = cursor.fetchone()
    if tables:
        raise BackupFailed(
            "the database already contains data: restore into an empty one, or set COMMONPLACE_HOME to a new folder"
        )


def refuse_other_sessions(application: str) -> None:
    """Refuse if our programs are connected: they have connected before the mark, and would not notice it."""
    with connection.cursor() as cursor:
        cursor.execute(OTHER_SESSIONS, [[application, settings.DATABASE_OWNER["USER"]]])
        sessions = cursor.fetchall()
    if sessions:
        names = [f"{name or 'a program'} (process {pid} of PostgreSQL)" for pid, name in sessions]
        raise BackupFailed(f"other programs are connected to this database: {', '.join(names)}. Stop them first")


def end_earlier_pg_restore() -> None:
    """End the session of a pg_restore that outlived its parent. Raises BackupFailed if it does not end."""
    name = APPLICATION_NAMES["pg_restore"]
    deadline = time.monotonic() + END_WITHIN_S
    while True:
        with connection.cursor() as cursor:
            cursor.execute(END_SESSIONS, [name])
            if not cursor.fetchall():
                return
        if time.monotonic() > deadline:
            raise BackupFailed(f"the pg_restore of the earlier restore ({name!r} in pg_stat_activity) does not end")
        time.sleep(0.2)


def empty_database() -> None:
    """Drop what a half restore has created. The mark stays until the end, so a kill in between opens no door."""
    with connection.cursor() as cursor:
        for query in (OWN_TABLES, OWN_FUNCTIONS, OWN_TYPES):
            cursor.execute(query)
            for kind, name in cursor.fetchall():
                cursor.execute(sql.SQL(f"DROP {kind} IF EXISTS {name} CASCADE"))  # names quoted by PostgreSQL


def load(folder: Path, parameters: dict[str, str] | None = None, database: str = "") -> None:
    """Load the dump in one transaction, as the owner of the tables. Raises BackupFailed."""
    entries = run("pg_restore", "--list", str(folder / DUMP), parameters={})
    selection = folder / "entries"
    selection.write_text(
        "\n".join(line for line in entries.splitlines() if not any(entry in line for entry in SKIPPED_ENTRIES))
    )
    options = ("--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error", f"--use-list={selection}")
    name = database or str(connection.settings_dict["NAME"])
    run("pg_restore", *options, f"--dbname={name}", str(folder / DUMP), parameters=parameters)


def refuse_superuser() -> None:
    """Refuse to load a dump as a superuser, because a manipulated dump may contain any SQL command."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        (is_superuser,) = cursor.fetchone()
    if is_superuser:
        raise BackupFailed(
            "a backup can't be restored as a PostgreSQL superuser: name an ordinary role in DATABASE_OWNER_URL"
        )


def create_extension() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")


def restore_key(folder: Path) -> None:
    """Install the signing key of the backup, so that sessions and links signed with it stay valid."""
    key: Path = settings.COMMONPLACE_HOME / KEY
    draft = key.with_suffix(".restored")
    draft.unlink(missing_ok=True)
    erased.append(draft, (folder / KEY).read_text())
    draft.replace(key)
    secret_key_check.adopt(key.read_text().strip())
