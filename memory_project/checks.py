"""System checks: what would make the product fail later is said at the start, with what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError, connection

POSTGRES_MIN = 160000
PGVECTOR_MIN = (0, 8)


@register(Tags.database)
def check_database(*, databases: Sequence[str] | None = None, **extra: Any) -> list[CheckMessage]:
    """PostgreSQL ≥ 16 with pgvector ≥ 0.8, and the right to install it."""
    if not databases:
        return []
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('server_version_num')::int")
            (server,) = cursor.fetchone()
            cursor.execute(
                "SELECT default_version, installed_version FROM pg_available_extensions WHERE name = 'vector'"
            )
            vector = cursor.fetchone()
            cursor.execute("SELECT has_database_privilege(current_database(), 'CREATE')")
            (may_create,) = cursor.fetchone()
    except DatabaseError as error:
        hint = "Check DATABASE_URL, or unset it to use the embedded PostgreSQL."
        return [Error(f"The database does not answer: {str(error).strip()}", hint=hint, id="commonplace.E001")]
    found: list[CheckMessage] = []
    if server < POSTGRES_MIN:
        found.append(
            Error(
                "PostgreSQL is older than 16.",
                hint="Upgrade it, or unset DATABASE_URL.",
                id="commonplace.E002",
            )
        )
    if vector is None:
        hint = "Install the package pgvector for this PostgreSQL (≥ 0.8), or unset DATABASE_URL."
        return [*found, Error("The extension pgvector is not there.", hint=hint, id="commonplace.E003")]
    available, installed = vector
    version = installed or available
    if tuple(int(part) for part in version.split(".")[:2]) < PGVECTOR_MIN:
        hint = "Install pgvector ≥ 0.8, then ALTER EXTENSION vector UPDATE."
        found.append(Error(f"pgvector is {version}, older than 0.8.", hint=hint, id="commonplace.E004"))
    if installed is None and not may_create:
        hint = "Let a superuser run CREATE EXTENSION vector in this database once."
        found.append(Error("This role may not install pgvector.", hint=hint, id="commonplace.E005"))
    return found


@register(Tags.database)
def check_vector_dimension(*, databases: Sequence[str] | None = None, **extra: Any) -> list[CheckMessage]:
    """EMBEDDING_DIMENSIONS is what the column holds."""
    if not databases:
        return []
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT atttypmod FROM pg_attribute"
                " WHERE attrelid = to_regclass('memory_records') AND attname = 'embedding'"
            )
            row = cursor.fetchone()
    except DatabaseError:
        return []  # check_database has said so
    if row is None or row[0] == settings.EMBEDDING_DIMENSIONS:
        return []
    hint = f"Run `manage.py embed --dimension {settings.EMBEDDING_DIMENSIONS}`, or set EMBEDDING_DIMENSIONS={row[0]}."
    fault = f"The vector column holds {row[0]} dimensions, EMBEDDING_DIMENSIONS is {settings.EMBEDDING_DIMENSIONS}."
    return [Error(fault, hint=hint, id="commonplace.E006")]


@register(Tags.database)
def check_text_search(*, databases: Sequence[str] | None = None, **extra: Any) -> list[CheckMessage]:
    """TEXT_SEARCH_CONFIG is one that the database has."""
    if not databases:
        return []
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT array_agg(cfgname::text) FROM pg_ts_config")
            (known,) = cursor.fetchone()
    except DatabaseError:
        return []  # check_database has said so
    if settings.TEXT_SEARCH_CONFIG in known:
        return []
    hint = f"Set it to one of: {', '.join(sorted(known))}."
    return [Error(f"TEXT_SEARCH_CONFIG={settings.TEXT_SEARCH_CONFIG!r} is unknown.", hint=hint, id="commonplace.E008")]


@register()
def check_embedding_settings(**extra: Any) -> list[CheckMessage]:
    provider = settings.EMBEDDING_PROVIDER
    if provider in ("openai", "sentence-transformers") and not settings.EMBEDDING_MODEL:
        hint = "Name the model in EMBEDDING_MODEL."
        return [Error(f"EMBEDDING_PROVIDER={provider} needs a model.", hint=hint, id="commonplace.E007")]
    if provider == "none":
        hint = "Unset EMBEDDING_PROVIDER to use the packaged model."
        return [Warning("No embedding provider: recall finds exact words only.", hint=hint, id="commonplace.W001")]
    return []
