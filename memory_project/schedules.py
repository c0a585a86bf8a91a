"""Schedules of background tasks, updated after every migration.

django-q stores dotted paths of functions. When a function moves, the paths in stored schedules and in tasks queued by
an earlier version must be updated, or the tasks fail.
"""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.conf import settings
from django.db.models import Q
from django_q.signing import SignedPackage

APPS = ("memories", "analysis", "knowledge", "memory_project")
# Old → new paths of functions that earlier versions have queued. Scheduled functions need no entry:
# update_schedules() replaces their paths, and a run that is already queued fails once and is scheduled again.
RENAMED_TASKS = {
    "knowledge.tasks.ground": "knowledge.tasks.take_baselines",
    "knowledge.graph.tasks.count_uses": "knowledge.graph.tasks.count_accesses",
    "knowledge.graph.tasks.look_through": "knowledge.graph.tasks.propose_maintenance_of",
    "memories.conversation.tasks.count_uses": "memories.conversation.tasks.count_accesses",
    "memory_project.notices.inbox.mail_one": "memory_project.tasks.mail_notification",
}


def schedules() -> dict[str, tuple[str, int]]:
    """Return the dotted path and the interval in minutes of each scheduled task, by the schedule's name."""
    return {
        "close gaps in the index": ("memories.tasks.close_gaps", 5),
        "run index jobs": ("memories.tasks.run_index_jobs", 1),
        "count search terms": ("memories.tasks.refresh_term_statistics", 15),
        "train the vector index": ("memories.tasks.train_vector_index", 15),
        "delete closed index jobs": ("memories.tasks.delete_closed_jobs", 60),
        "enrich long-term memories": ("memories.conversation.tasks.enrich", 1),
        "consolidate conversations": ("memories.conversation.tasks.consolidate", 10),
        "delete expired cached answers": ("memories.conversation.tasks.delete_expired_answers", 10),
        "delete expired rows": ("memory_project.tasks.delete_expired_rows", 60),
        "purge deleted graph entities": ("knowledge.graph.tasks.purge", 1_440),
        "propose graph maintenance": ("knowledge.graph.tasks.propose_maintenance", 1_440),
        "go on with imports": ("memory_project.imports.tasks.go_on_with_all", 2),
        "mail notifications": ("memory_project.tasks.mail_notifications", 1),
        "send the weekly digest": ("memory_project.tasks.send_digest", 720),
        "alert about old reviews": ("memory_project.tasks.alert_about_reviews", 60),
        "send webhook events": ("memory_project.webhooks.tasks.send_webhook_events", 1),
        "send webhooks": ("memory_project.tasks.send_webhooks", 60),
        "run subscriptions to sources": ("memory_project.subscriptions.tasks.queue_due", 1),
        "delete expired analyses": ("analysis.tasks.delete_expired_sessions", 60),
        "link memories to entities": ("knowledge.tasks.link_memories", 10),
        "compare memories with the catalog": ("knowledge.tasks.check_freshness", settings.STALENESS_INTERVAL_MIN),
    }


def update_schedules() -> None:
    """Make the schedules of functions in APPS equal to `schedules()`. Safe to repeat.

    Schedules of other functions stay, because an operator has added them.
    """
    Schedule = apps.get_model("django_q", "Schedule")
    for name, (function, minutes) in schedules().items():
        values: dict[str, Any] = {"func": function, "schedule_type": "I", "minutes": minutes, "repeats": -1}
        Schedule.objects.update_or_create(name=name, defaults=values)
    our_functions = Q()
    for app in APPS:
        our_functions |= Q(func__startswith=f"{app}.")
    Schedule.objects.filter(our_functions).exclude(name__in=schedules()).delete()


def rename_queued_tasks() -> None:
    """Update the function paths of queued tasks by RENAMED_TASKS."""
    OrmQ = apps.get_model("django_q", "OrmQ")
    for row in OrmQ.objects.all():
        task = row.task
        if task.get("func") in RENAMED_TASKS:
            payload = SignedPackage.dumps({**task, "func": RENAMED_TASKS[task["func"]]})
            OrmQ.objects.filter(pk=row.pk).update(payload=payload)
