"""Readiness of this process: the database answers, and has all migrations of this version."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import psycopg
from django.apps import apps

from foundation.database.connections import direct_connection
from memory_project.web import draining

PACKAGES = ("memory_project", "memories", "knowledge", "analysis")
KEPT_S = 1.0  # seconds for which a result is kept, so that probes can't flood the database with connections
APPLIED = "SELECT app, name FROM django_migrations WHERE app = ANY(%s)"

_guard = threading.Lock()
_last: tuple[float, str] | None = None


def problem() -> str:
    """Return why this process should get no requests, or "" if it is ready.

    Migrations of a newer version are no problem: during an upgrade, processes of the older version serve on.
    """
    global _last
    if draining.is_draining():
        return "draining"
    with _guard:
        if _last is None or time.monotonic() - _last[0] > KEPT_S:
            _last = None  # in case that the look-up raises an exception
            found = _database_problem()
            _last = (time.monotonic(), found)
        return _last[1]


def _database_problem() -> str:
    try:
        with direct_connection() as direct:
            applied = set(direct.execute(APPLIED, [[config.label for config in _own_apps()]]).fetchall())
    except psycopg.errors.UndefinedTable:
        return "the database lacks all migrations"
    except psycopg.Error:
        return "the database does not answer"
    missing = own_migrations() - applied
    return f"the database lacks {len(missing)} migrations" if missing else ""


def own_migrations() -> set[tuple[str, str]]:
    # Comparing file names with the table is faster than Django's loader, which imports every migration.
    return {
        (config.label, file.stem)
        for config in _own_apps()
        for file in (Path(config.path) / "migrations").glob("[0-9]*.py")
    }


def _own_apps() -> list[Any]:
    return [config for config in apps.get_app_configs() if config.name.partition(".")[0] in PACKAGES]
