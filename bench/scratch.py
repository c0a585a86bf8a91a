"""A database of its own for a benchmark: made, migrated, filled and dropped again."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def setup() -> None:
    """Django with the project's settings, runnable as `python bench/NAME.py` from anywhere."""
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memory_project.settings")
    import django  # noqa: PLC0415 - after the path is set

    django.setup()
    _as_superuser()


def _as_superuser() -> None:
    """The embedded server's, which alone may make databases; of a database of one's own, whoever DATABASE_URL names."""
    from django.conf import settings  # noqa: PLC0415 - after setup()
    from django.db import connection  # noqa: PLC0415 - the same

    from memory_project.postgres.server import SUPERUSER  # noqa: PLC0415 - the same

    if not settings.DATABASE_URL:
        connection.settings_dict["USER"] = settings.DATABASE_OWNER["USER"] = SUPERUSER


@contextmanager
def database() -> Iterator[None]:
    from django.db import connection  # noqa: PLC0415 - after setup()

    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    try:
        yield
    finally:
        with connection.cursor() as cursor:  # threads of a server in this process may hold connections
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        connection.creation.destroy_test_db(connection.settings_dict["NAME"], verbosity=0)
