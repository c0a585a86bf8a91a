"""A migrated database that each test database is a copy of, so that migrations run once and not once per process.

It stays in the tests' PostgreSQL and is made anew after a change of what the migrations do. tests/e2e starts in empty
folders and so runs all migrations anew.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.db import connection

PREFIX = "migrated_"
ROOT = Path(__file__).resolve().parent.parent
# Code of ours that migrations and the command `migrate` call.
CALLED = ("foundation/database", "foundation/people", "memory_project/operating/postgres", "memories/models")
PACKAGES = ("django", "django-q2", "django-oauth-toolkit", "django-allauth", "django-axes")


def migrated_template() -> str:
    """Return the name of a migrated database without rows of tests. The first call creates it."""
    name = f"{PREFIX}{_fingerprint()[:16]}"
    with _alone():
        databases = _databases()
        if name not in databases:
            unfinished = f"{name}_new"
            for old in databases:
                _execute(f'DROP DATABASE "{old}"')
            _execute(f'CREATE DATABASE "{unfinished}"')
            _migrate(unfinished)
            _execute(f'ALTER DATABASE "{unfinished}" RENAME TO "{name}"')
    return name


def _fingerprint() -> str:
    folders = [ROOT / folder for folder in CALLED]
    folders += [Path(app.path) / "migrations" for app in apps.get_app_configs()]
    digest = sha256()
    for file in sorted(file for folder in folders for file in folder.rglob("*.py")):
        digest.update(str(file).encode() + file.read_bytes())
    for package in PACKAGES:
        digest.update(version(package).encode())
    return digest.hexdigest()


@contextmanager
def _alone() -> Iterator[None]:
    """Let the processes of a run wait for the one that creates the template."""
    settings.COMMONPLACE_HOME.mkdir(parents=True, exist_ok=True)
    with (settings.COMMONPLACE_HOME / "template.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _databases() -> list[str]:
    with connection._nodb_cursor() as cursor:
        cursor.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [PREFIX])
        return [name for (name,) in cursor.fetchall()]


def _execute(statement: str) -> None:
    with connection._nodb_cursor() as cursor:
        cursor.execute(statement)


def _migrate(name: str) -> None:
    usual = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = name
    try:
        call_command("migrate", verbosity=0, interactive=False)
    finally:
        connection.close()
        connection.settings_dict["NAME"] = usual
