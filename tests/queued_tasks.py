"""Queued tasks, for tests in which something happens between queueing a task and running it."""

from __future__ import annotations

from django.utils.module_loading import import_string
from django_q.models import OrmQ


def run_queued_tasks(function: str) -> list[object]:
    """Run the queued tasks of this function, oldest first, and return their results."""
    rows = [row for row in OrmQ.objects.order_by("pk") if row.task["func"] == function]
    OrmQ.objects.filter(pk__in=[row.pk for row in rows]).delete()
    return [import_string(function)(*row.task["args"]) for row in rows]
