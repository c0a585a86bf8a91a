"""Snapshots of all tables, for comparison before and after a migration."""

from __future__ import annotations

import hashlib
from typing import Any

from django.db import connection

COLUMNS = """
    SELECT table_name, array_agg(column_name::text ORDER BY column_name) FROM information_schema.columns
    WHERE table_schema = 'public' AND is_generated = 'NEVER' GROUP BY table_name ORDER BY table_name
"""
# Migrations add rows to these tables.
GROW = {
    "django_migrations",
    "django_content_type",
    "auth_permission",
    "auth_group",
    "auth_group_permissions",
    "django_q_schedule",
}

DERIVED = {"memory_lexemes"}  # tables that a migration empties, because a task fills them again


# Columns that have moved or are recomputed, with an expression for their content in the current schema.
VECTOR = "(SELECT vector FROM memory_passages p WHERE p.record_id = memory_records.id AND p.start = 0)"
FINDING_VECTOR = "(SELECT vector FROM analysis_passages p WHERE p.finding_id = analysis_memories.id AND p.start = 0)"
MOVED = {
    ("analysis_memories", "embedding"): FINDING_VECTOR,
    ("analysis_memories", "embedding_text_hash"): f"CASE WHEN {FINDING_VECTOR} IS NOT NULL THEN "
    "sha256(convert_to(finding, 'UTF8')) END",
    ("memory_records", "embedding"): VECTOR,
    ("memory_records", "embedding_text_hash"): f"CASE WHEN {VECTOR} IS NOT NULL THEN "
    "sha256(convert_to(content, 'UTF8')) END",
}


def table_contents(before: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the columns, the number of rows and a hash of the rows for each table.

    Tables that grow contain the rows themselves instead of a hash. With the earlier snapshot `before`, only its tables
    and columns are read.
    """
    with connection.cursor() as cursor:
        cursor.execute(COLUMNS)
        tables = {name: note["columns"] for name, note in before.items()} if before else dict(cursor.fetchall())
        tables = {name: columns for name, columns in tables.items() if name not in DERIVED}
        contents = {}
        for name, columns in tables.items():
            moved = MOVED if before else {}
            column_list = ", ".join(moved.get((name, column), f'"{column}"') for column in columns)
            # names from the database catalog
            cursor.execute(f"SELECT ROW({column_list})::text FROM {name} ORDER BY 1")  # noqa: S608
            rows = [row for (row,) in cursor.fetchall()]
            digest = hashlib.sha256("\n".join(rows).encode()).hexdigest()
            contents[name] = {
                "columns": columns,
                **({"rows": rows} if name in GROW else {"count": len(rows), "sha256": digest}),
            }
    return contents
