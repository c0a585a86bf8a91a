"""System checks of the database and the settings, with hints for operators. Those of the database are the doctor's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError, NotSupportedError

from memory_project.operating.doctor import database, recall
from memory_project.operating.doctor.facts import Facts
from memory_project.operating.doctor.facts import read as read_facts
from memory_project.operating.doctor.findings import FindingState, HealthFinding


@register(Tags.database)
def check_database(*, databases: Sequence[str] | None = None, **extra: Any) -> list[CheckMessage]:
    return database_problems() if databases else []


def database_problems() -> list[CheckMessage]:
    """Check that PostgreSQL is ≥ 16, pgvector is ≥ 0.8, and pgvector is installed or this role may install it."""
    try:
        facts = read_facts()
    except (DatabaseError, NotSupportedError) as error:
        return [*_messages("E001", database.unreachable(error))]
    return [*_messages("E002", database.server(facts)), *_messages("E003", database.extension(facts))]


def newer_migrations() -> list[str]:
    """Return the migrations that a newer version has applied to the database and this version does not have."""
    return database.pending_migrations()[1]


@register(Tags.database)
def check_role(*, databases: Sequence[str] | None = None, **extra: Any) -> list[CheckMessage]:
    return _of_facts(databases, {"W002": database.role})


@register(Tags.database)
def check_row_security(*, databases: Sequence[str] | None = None, **extra: Any) -> list[CheckMessage]:
    return _of_facts(databases, {"W003": database.row_security})


@register(Tags.database)
def check_server(*, databases: Sequence[str] | None = None, **extra: Any) -> list[CheckMessage]:
    found: dict[str, Callable[[Facts], HealthFinding]] = {
        "E008": database.text_search,
        "E011": database.primary,
        "W012": database.grants,
        "W013": database.indexes,
        "W014": database.pooler,
        "W015": database.connections,
        "W016": database.clock,
    }
    return _of_facts(databases, found)


def _of_facts(
    databases: Sequence[str] | None, checks: Mapping[str, Callable[[Facts], HealthFinding]]
) -> list[CheckMessage]:
    """Run checks of the doctor, by their number here, on facts that are read once."""
    if not databases:
        return []
    try:
        facts = read_facts()
    except (DatabaseError, NotSupportedError):
        return []  # check_database reports it
    return [message for number, check in checks.items() for message in _messages(number, check(facts))]


@register(Tags.database)
def check_tables(*, databases: Sequence[str] | None = None, **extra: Any) -> list[CheckMessage]:
    """Run the checks that read tables, which may not exist before the first migration."""
    if not databases:
        return []
    messages: list[CheckMessage] = []
    checks = {"E006": database.dimension, "W017": database.migrations, "W018": recall.stored_vectors}
    if sys.argv[1:2] == ["migrate"]:
        del checks["W017"]  # it is about to apply them
    for number, check in checks.items():
        try:
            messages += _messages(number, check())
        except (DatabaseError, NotSupportedError):
            continue  # check_database or the check of migrations reports it
    return messages


def _messages(number: str, finding: HealthFinding) -> list[CheckMessage]:
    """Return the finding as a message. Numbers with W are warnings, because `migrate` runs these checks first."""
    if finding.state in (FindingState.OK, FindingState.UNKNOWN):
        return []
    kind = Error if number.startswith("E") else Warning
    return [kind(str(finding.found), hint=str(finding.fix), id=f"commonplace.{number}")]


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


@register(Tags.database)  # only with --database, because it asks another system
def check_datahub(*, databases: Sequence[str] | None = None, **extra: Any) -> list[CheckMessage]:
    from memory_project.operating.doctor import systems  # noqa: PLC0415 - imports what most commands don't need

    return _messages("W019", systems.catalog()) if databases else []
