"""A temporary database for a benchmark: created, migrated, and dropped at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def setup() -> None:
    """Set up Django with the project's settings, so that `python bench/NAME.py` runs from any directory."""
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memory_project.settings")
    import django  # noqa: PLC0415 - after the path is set

    django.setup()
    _as_superuser()


def _as_superuser() -> None:
    """Connect as a role that may create databases, and assume the application's role for a caller.

    The embedded server allows the former only to its superuser. With DATABASE_URL, the role named there is used.
    """
    from django.conf import settings  # noqa: PLC0415 - after setup()
    from django.db import connection  # noqa: PLC0415 - after setup()

    from memory_project.operating.postgres.server import APPLICATION, SUPERUSER  # noqa: PLC0415 - after setup()

    if not settings.DATABASE_URL:
        connection.settings_dict["USER"] = settings.DATABASE_OWNER["USER"] = SUPERUSER
        connection.settings_dict["IDENTITY_ROLE"] = APPLICATION


def environment(url: str) -> dict[str, str]:
    """Return the environment of a process that uses this database, and chooses its settings as for a user."""
    inherited = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    return {**inherited, "DATABASE_URL": url}


@contextmanager
def database(*, keep: bool = False) -> Iterator[bool]:
    """Create the database for the block, and yield whether it is new.

    With `keep`, it is not dropped at the end, and the next block with `keep` finds it with its rows.
    """
    from django.db import connection  # noqa: PLC0415 - after setup()

    from memory_project.operating.postgres.roles import statements  # noqa: PLC0415 - after setup()
    from memory_project.operating.postgres.server import LEAKPROOF  # noqa: PLC0415 - after setup()

    connection.creation.create_test_db(verbosity=0, autoclobber=True, keepdb=keep, serialize=False)
    with connection.cursor() as cursor:
        cursor.execute("SELECT NOT EXISTS (SELECT FROM memory_records)")
        is_new = bool(cursor.fetchone()[0])
        if role := connection.settings_dict.get("IDENTITY_ROLE"):
            for statement in [LEAKPROOF, *statements(role, connection.pg_version)]:  # type: ignore[attr-defined]
                cursor.execute(statement)
    try:
        yield is_new
    finally:
        if not keep:
            _drop()


def _drop() -> None:
    from django.db import connection  # noqa: PLC0415 - after setup()

    with connection.cursor() as cursor:  # server threads of this process may still hold connections
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    connection.creation.destroy_test_db(connection.settings_dict["NAME"], verbosity=0)
