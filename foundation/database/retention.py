"""Deletion of expired rows.

A model states in `retention` when its rows expire:

    class AuditEvent(models.Model):
        retention = (Retention("at", timedelta(days=30)),)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from django.apps import apps
from django.db.models import Model, Q
from django.utils import timezone

BATCH_SIZE = 5_000  # maximum number of rows deleted by one statement; small, so that no lock is held for long


@dataclass(frozen=True)
class Retention:
    """Rows are deleted once the time in `column` is older than `age`. An age of 0 keeps them forever."""

    column: str
    age: timedelta | Callable[[], timedelta]  # a function reads it from a setting
    only: Q | None = None  # condition for the rows that are deleted, if not all are


def delete_expired() -> dict[str, int]:
    """Delete the expired rows of all models. Returns the number of rows by table, without tables that had none."""
    counts: Counter[str] = Counter()
    for model in apps.get_models():
        for retention in getattr(model, "retention", ()):
            counts[model._meta.db_table] += _delete_expired(model, retention)
    return dict(+counts)


def _delete_expired(model: type[Model], retention: Retention) -> int:
    age = retention.age() if callable(retention.age) else retention.age
    if not age:
        return 0
    rows = model._default_manager.filter(retention.only or Q(), **{f"{retention.column}__lt": timezone.now() - age})
    count = 0
    while pks := list(rows.order_by(retention.column).values_list("pk", flat=True)[:BATCH_SIZE]):
        count += model._default_manager.filter(pk__in=pks).delete()[0]
    return count
