"""Facts about PostgreSQL, this role and our tables, read in one statement.

The statement uses PostgreSQL's own tables only, so it also works before the first migration and with any role.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from datetime import datetime

from django.apps import apps
from django.db import connection

from foundation.database import sql_files

SQL = sql_files.statements(__file__)


@dataclass(frozen=True)
class Facts:
    server_version: int
    role: str
    vector_available: str | None
    vector_installed: str | None
    may_create: bool
    is_superuser: bool
    bypasses_policies: bool
    owns_tables: bool
    unprotected: list[str]  # tables with policies that are not in force
    missing_grants: list[str]  # tables with what is missing, such as `memory_records (INSERT, DELETE)`
    search_configurations: list[str]
    invalid_indexes: list[str]  # those that nothing is building at the moment
    is_replica: bool
    is_read_only: bool
    backend: int  # the process of PostgreSQL that ran the statement
    connections: int  # that roles without special rights may open
    role_limit: int  # -1: none
    database_limit: int
    used_by_others: int  # connections of other roles, and of PostgreSQL's own processes
    clock: datetime
    clock_error_s: float = 0.0  # clock of the database less the clock of this machine
    clock_tolerance_s: float = 0.0  # half the time that the statement took
    announced_backend: int = 0  # the process that the connection was told at its start
    web_processes: int = 1  # on all machines, as the operator says


def read(web_processes: int = 1) -> Facts:
    """Read the facts on the connection of this thread. Raises DatabaseError."""
    with connection.cursor() as cursor:
        before = time.time()
        cursor.execute(SQL["facts"], {"tables": tables()})
        row = cursor.fetchone()
        after = time.time()
        names = [column.name for column in cursor.description]
    found = dict(zip(names, row, strict=True))
    assert set(found) <= {field.name for field in fields(Facts)}
    return Facts(
        **found,
        clock_error_s=found["clock"].timestamp() - (before + after) / 2,
        clock_tolerance_s=(after - before) / 2,
        announced_backend=connection.connection.info.backend_pid,
        web_processes=web_processes,
    )


def tables() -> list[str]:
    """Return the tables that the application reads and writes."""
    models = apps.get_models(include_auto_created=True)
    return sorted({model._meta.db_table for model in models if model._meta.managed and not model._meta.proxy})
