"""Django's system checks: the health checks that have a number, with hints for operators."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError, NotSupportedError

from memory_project.operating.doctor import database, examination
from memory_project.operating.doctor.examination import ExaminationResult
from memory_project.operating.doctor.facts import read as read_facts
from memory_project.operating.doctor.registry import CHECKS, Reads, of_kinds
from memory_project.operating.shared import secret_key_check

NEEDED = ("server", "extension")  # what the database must have before it is migrated


@register()
def check_settings(**extra: Any) -> list[CheckMessage]:
    return _messages(examination.guarded(check) for check in of_kinds(Reads.SETTINGS) if check.number)


@register(Tags.database)  # only with --database, because it connects to the database and to other systems
def check_database(*, databases: Sequence[str] | None = None, **extra: Any) -> list[CheckMessage]:
    if not databases:
        return []
    try:
        facts = read_facts()
    except (DatabaseError, NotSupportedError) as error:
        return _messages([ExaminationResult(CHECKS["server"], database.unreachable(error))])
    messages = [*_messages(examination.on_facts(facts)), *_other_key()]
    return messages + _messages(examination.guarded(check) for check in of_kinds(Reads.SYSTEMS) if check.number)


def _other_key() -> list[CheckMessage]:
    """Compare the keys on a database of an earlier version, too, which may lack tables that the checks read."""
    try:
        secret_key_check.refuse_other_key()
    except secret_key_check.OtherKey as error:
        return [Error(str(error), id="commonplace.E021")]
    except DatabaseError:
        return []
    return []


def database_problems() -> list[CheckMessage]:
    """Check that PostgreSQL is ≥ 16, pgvector is ≥ 0.8, and pgvector is installed or this role may install it."""
    try:
        facts = read_facts()
    except (DatabaseError, NotSupportedError) as error:
        return _messages([ExaminationResult(CHECKS["server"], database.unreachable(error))])
    return _messages(examination.guarded(CHECKS[name], facts) for name in NEEDED)


def newer_migrations() -> list[str]:
    """Return the migrations that a newer version has applied to the database and this version does not have."""
    return database.pending_migrations()[1]


def _messages(results: Iterable[ExaminationResult]) -> list[CheckMessage]:
    """Return the findings that need a look. Numbers with W are warnings, because `migrate` runs these checks first."""
    passed_over = {"migrations"} if sys.argv[1:2] == ["migrate"] else set()  # which is about to apply them
    return [
        _message(result)
        for result in results
        if result.check.number and result.name not in passed_over and result.needs_a_look
    ]


def _message(result: ExaminationResult) -> CheckMessage:
    kind = Error if result.check.number.startswith("E") else Warning
    found = result.finding
    return kind(str(found.found), hint=str(found.fix), id=f"commonplace.{result.check.number}")
