"""What the application's role may do: read and write rows. It neither creates nor alters anything."""

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
LOADED = ("ingested_records", "catalog_aspects", "catalog_entities")  # tables that are analysed after a load
MAINTAIN_SINCE = 170000  # PostgreSQL's MAINTAIN privilege: VACUUM and ANALYZE without owning the table


def grant(role: str) -> None:
    """Gives the application's role its rights; run by the owner after each migration. A no-op for the owner itself."""
    if role == settings.DATABASE_OWNER["USER"]:
        return
    with connection.cursor() as cursor:
        for statement in statements(connection.ops.quote_name(role), connection.pg_version):  # type: ignore[attr-defined]
            cursor.execute(statement)


def statements(quoted_role: str, server_version: int) -> list[str]:
    analyze_tables = f"GRANT MAINTAIN ON {', '.join(LOADED)} TO {quoted_role}"
    return [GRANTS.format(role=quoted_role), *([analyze_tables] if server_version >= MAINTAIN_SINCE else [])]
