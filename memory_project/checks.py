"""System checks of the database and the settings, with hints for operators."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError, NotSupportedError, connection
from django.db.migrations.loader import MigrationLoader

from memories.retrieval import indexing

MIN_POSTGRES = 160000
MIN_PGVECTOR = (0, 8)


@register(Tags.database)
def check_database(*, databases: Sequence[str] | None = None, **extra: Any) -> list[CheckMessage]:
    return database_problems() if databases else []


def database_problems() -> list[CheckMessage]:
    """Check that PostgreSQL is ≥ 16, pgvector is ≥ 0.8, and pgvector is installed or this role may install it."""
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
    except (DatabaseError, NotSupportedError) as error:
        return [unreachable(error)]
    problems: list[CheckMessage] = []
    if server < MIN_POSTGRES:
        problems.append(
            Error(
                "PostgreSQL is older than 16.",
                hint="Upgrade it, or unset DATABASE_URL.",
                id="commonplace.E002",
            )
        )
    if vector is None:
        hint = "Install the package pgvector for this PostgreSQL (≥ 0.8), or unset DATABASE_URL."
        return [*problems, Error("The extension pgvector is not available.", hint=hint, id="commonplace.E003")]
    available, installed = vector
    version = installed or available
    if tuple(int(part) for part in version.split(".")[:2]) < MIN_PGVECTOR:
        hint = "Install pgvector ≥ 0.8, then ALTER EXTENSION vector UPDATE."
        problems.append(Error(f"pgvector is {version}, older than 0.8.", hint=hint, id="commonplace.E004"))
    if installed is None and not may_create:
        hint = "Let a superuser run CREATE EXTENSION vector in this database once."
        problems.append(Error("This role is not allowed to install pgvector.", hint=hint, id="commonplace.E005"))
    return problems


def unreachable(error: Exception) -> Error:
    hint = "Check DATABASE_URL, or unset it to use the embedded PostgreSQL."
    return Error(f"The database does not answer: {str(error).strip()}", hint=hint, id="commonplace.E001")


def newer_migrations() -> list[str]:
    """Return the migrations that a newer version has applied to the database and this version does not have."""
    labels = {config.label for config in apps.get_app_configs() if Path(config.path).is_relative_to(settings.BASE_DIR)}
    loader = MigrationLoader(connection)
    applied = {(app, name) for app, name in loader.applied_migrations if app in labels}
    return sorted(f"{app}.{name}" for app, name in applied - set(loader.disk_migrations))


@register(Tags.database)
def check_role(*, databases: Sequence[str] | None = None, **extra: Any) -> list[CheckMessage]:
    if not databases:
        return []
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT rolsuper, EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = 'public' AND tableowner = rolname)"
                " FROM pg_roles WHERE rolname = current_user"
            )
            is_superuser, owns = cursor.fetchone()
    except (DatabaseError, NotSupportedError):
        return []  # check_database reports it
    if not is_superuser and not owns:
        return []
    problem = "is a PostgreSQL superuser" if is_superuser else "owns the tables"
    hint = (
        "An SQL injection could therefore alter or drop tables. Create a role without privileges for DATABASE_URL, put "
        "the current role into DATABASE_OWNER_URL, and run `manage.py migrate`."
    )
    return [Warning(f"The application's database role {problem}.", hint=hint, id="commonplace.W002")]


def row_security_problem() -> str:
    """Return why row-level security is not in force for this connection, or "" if it is."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")
        (bypasses,) = cursor.fetchone()
        cursor.execute(
            "SELECT DISTINCT relname::text FROM pg_policy JOIN pg_class ON pg_class.oid = polrelid"
            " WHERE NOT (relrowsecurity AND relforcerowsecurity) ORDER BY relname"
        )
        tables = [table for (table,) in cursor.fetchall()]
    if bypasses:
        return "the application's role is a superuser or has BYPASSRLS"
    return f"it is disabled or not forced for {', '.join(tables)}" if tables else ""


@register(Tags.database)
def check_row_security(*, databases: Sequence[str] | None = None, **extra: Any) -> list[CheckMessage]:
    if not databases:
        return []
    try:
        problem = row_security_problem()
    except (DatabaseError, NotSupportedError):
        return []  # check_database reports it
    hint = "docs/security.md names the privileges of the role, and how to enable it for a table."
    return [Warning(f"Row-level security is off: {problem}.", hint=hint, id="commonplace.W003")] if problem else []


@register(Tags.database)
def check_vector_dimension(*, databases: Sequence[str] | None = None, **extra: Any) -> list[CheckMessage]:
    if not databases:
        return []
    try:
        problem = indexing.dimension_problem()
    except (DatabaseError, NotSupportedError):
        return []  # check_database reports it
    return [Error(problem, id="commonplace.E006")] if problem else []


@register(Tags.database)
def check_text_search(*, databases: Sequence[str] | None = None, **extra: Any) -> list[CheckMessage]:
    if not databases:
        return []
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT array_agg(cfgname::text) FROM pg_ts_config")
            (configurations,) = cursor.fetchone()
    except (DatabaseError, NotSupportedError):
        return []  # check_database reports it
    if settings.TEXT_SEARCH_CONFIG in configurations:
        return []
    hint = f"Set it to one of: {', '.join(sorted(configurations))}."
    return [Error(f"TEXT_SEARCH_CONFIG={settings.TEXT_SEARCH_CONFIG!r} is unknown.", hint=hint, id="commonplace.E008")]


@register()
def check_embedding_settings(**extra: Any) -> list[CheckMessage]:
    provider = settings.EMBEDDING_PROVIDER
    if provider in ("openai", "sentence-transformers") and not settings.EMBEDDING_MODEL:
        hint = "Name the model in EMBEDDING_MODEL."
        return [Error(f"EMBEDDING_PROVIDER={provider} needs a model.", hint=hint, id="commonplace.E007")]
    if provider == "none":
        hint = "Unset EMBEDDING_PROVIDER to use the packaged model."
        return [
            Warning("No embedding provider: recall matches words only, not meaning.", hint=hint, id="commonplace.W001")
        ]
    return []


@register()
def check_models_are_installed(**extra: Any) -> list[CheckMessage]:
    names = [
        name for name in ("EMBEDDING_PROVIDER", "RERANK_PROVIDER") if getattr(settings, name) == "sentence-transformers"
    ]
    if not names or find_spec("sentence_transformers") is not None:
        return []
    message = f"{' and '.join(names)}=sentence-transformers, but the extra `models` is not installed."
    hint = "Install it: pip install 'commonplace[models]', or choose another provider."
    return [Error(message, hint=hint, id="commonplace.E010")]


@register()
def check_datahub_settings(**extra: Any) -> list[CheckMessage]:
    if settings.DATAHUB_GMS_URL and find_spec("datahub") is None:
        hint = "Install it: pip install 'commonplace[datahub]', or unset DATAHUB_GMS_URL."
        return [
            Error("DATAHUB_GMS_URL is set, but the extra `datahub` is not installed.", hint=hint, id="commonplace.E009")
        ]
    return []
