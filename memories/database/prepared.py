"""Statements that each connection plans once: for what every call asks, where planning takes longer than the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from django.conf import settings
from django.db import connection


def rows(statement: str, values: Mapping[str, Any] | Sequence[Any]) -> list[tuple[Any, ...]]:
    """What the statement answers. Its plan must be good for all values, and values go beside it, not in it: each place
    must have a type that PostgreSQL can tell. With DATABASE_PREPARES off, for a pooler between, it is planned anew."""
    connection.ensure_connection()
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
        cursor.execute(statement, values, prepare=settings.DATABASE_PREPARES)
        return cursor.fetchall()
