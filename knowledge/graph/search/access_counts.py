"""Access counts of entities and of pairs of entities.

A worker updates the counts, so that reads don't wait for the update.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Count, F
from django.utils import timezone
from django_q.tasks import async_task

from foundation.database import sql_files
from foundation.database.connections import async_commit
from knowledge.graph.models import AccessDay, Entity

SQL = sql_files.statements(__file__)
MAX_COUNTED = 50  # maximum number of entities of one response that are counted


def queue_count(pks: Sequence[UUID]) -> None:
    if pks:
        task = partial(async_task, "knowledge.graph.tasks.count_accesses", [pk.hex for pk in pks[:MAX_COUNTED]])
        with async_commit():
            transaction.on_commit(task)


def count(pks: Sequence[UUID]) -> None:
    """Count one access to each entity and one co-occurrence of each pair."""
    ids = sorted(Entity.objects.filter(pk__in=pks).values_list("pk", flat=True))
    now = timezone.now()
    pairs = list(combinations(ids, 2))
    with transaction.atomic(), connection.cursor() as cursor:
        # Lock the rows in a fixed order, so that two workers can't deadlock.
        list(Entity.objects.filter(pk__in=ids).order_by("pk").select_for_update().values_list("pk"))
        cursor.execute(SQL["count_day"], [now.date(), ids])
        if pairs:
            cursor.execute(SQL["count_pairs"], [now, [a for a, _ in pairs], [b for _, b in pairs]])
        access_days = dict(AccessDay.objects.filter(entity__in=ids).values_list("entity").annotate(days=Count("pk")))
        Entity.objects.filter(pk__in=ids).update(access_count=F("access_count") + 1, last_access=now)
        for pk, days in access_days.items():
            Entity.objects.filter(pk=pk).update(access_days=days)
