"""Privileges of the application's database role: it reads and writes rows, but does not create or alter tables."""

from __future__ import annotations

from django.conf import settings
from django.db import connection

GRANTS = """
    GRANT USAGE ON SCHEMA public TO {role};
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role};
    GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {role};
    ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {role};
    ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO {role};
    REVOKE INSERT, UPDATE, DELETE ON django_migrations FROM {role};
"""
# tables that the application runs ANALYZE on after a bulk load
LOADED = ("ingested_records", "catalog_aspects", "catalog_entities")
MAINTAIN_SINCE = 170000  # PostgreSQL version with the MAINTAIN privilege: VACUUM and ANALYZE without owning the table


def grant(role: str) -> None:
    """Grant privileges to the application's role. The command `migrate` calls this as the owner of the tables.

    Does nothing if the application's role is the owner.
    """
    if role == settings.DATABASE_OWNER["USER"]:
        return
    with connection.cursor() as cursor:
        for statement in statements(connection.ops.quote_name(role), connection.pg_version):  # type: ignore[attr-defined]
            cursor.execute(statement)


def statements(quoted_role: str, server_version: int) -> list[str]:
    analyze_tables = f"GRANT MAINTAIN ON {', '.join(LOADED)} TO {quoted_role}"
    return [GRANTS.format(role=quoted_role), *([analyze_tables] if server_version >= MAINTAIN_SINCE else [])]
