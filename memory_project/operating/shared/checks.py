"""System checks of what several machines share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register
from django.db import DatabaseError

from memory_project.operating.shared import secret_key_check


@register(Tags.database)
def check_secret_key(*, databases: Sequence[str] | None = None, **extra: Any) -> list[CheckMessage]:
    if not databases:
        return []
    try:
        secret_key_check.refuse_other_key()
    except secret_key_check.OtherKey as error:
        return [Error(str(error), id="commonplace.E020")]
    except DatabaseError:
        return []  # check_database reports it
    return []
