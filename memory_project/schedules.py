"""Schedules of background tasks, updated after every migration.

django-q stores dotted paths of functions. When a function moves, the paths in stored schedules and in tasks queued by
an earlier version must be updated, or the tasks fail.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

from django.apps import apps
from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext
from django_q.signing import SignedPackage
from pydantic import Field

from foundation.operations.errors import Conflict, Forbidden, NotFound
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from memory_project.operating.shared import task_queue

APPS = ("foundation", "memories", "analysis", "knowledge", "memory_project")
MAX_MINUTES = 43_200  # 30 days
Minutes = Annotated[int, Field(ge=1, le=MAX_MINUTES)]
RUNS_SHOWN = 5  # next runs of a schedule
FOREVER, PAUSED = -1, 0  # values of Schedule.repeats
# Old → new paths of functions that earlier versions have queued, also by a schedule: otherwise a run that is queued
# during the upgrade counts as a task of a newer version, and stays for a week.
RENAMED_TASKS = {
    "memory_project.operating.doctor.tasks.check_other_systems": "memory_project.operating.doctor.tasks.check_health",
    "knowledge.tasks.ground": "knowledge.tasks.take_baselines",
    "knowledge.graph.tasks.count_uses": "knowledge.graph.tasks.count_accesses",
    "knowledge.graph.tasks.look_through": "knowledge.graph.tasks.propose_maintenance_of",
    "memories.conversation.tasks.count_uses": "memories.conversation.tasks.count_accesses",
    "memory_project.notices.inbox.mail_one": "memory_project.tasks.mail_notification",
    "analysis.tasks.resume": "foundation.work.jobs.go_on",
    "memories.tasks.finish_batch": "foundation.work.jobs.go_on",
    "memory_project.exchange.imports.tasks.go_on": "foundation.work.jobs.go_on",
    "memory_project.exchange.imports.tasks.go_on_with_all": "foundation.work.jobs.go_on",
    "memory_project.exchange.subscriptions.tasks.perform": "foundation.work.jobs.go_on",
    "memory_project.imports.tasks.go_on": "foundation.work.jobs.go_on",
    "memory_project.subscriptions.tasks.perform": "foundation.work.jobs.go_on",
    "memory_project.tasks.go_on_with_exports": "foundation.work.jobs.go_on",
    "memory_project.tasks.write_export": "foundation.work.jobs.go_on",
    "memory_project.webhooks.tasks.send_webhook_events": (
        "memory_project.notifications.webhooks.tasks.send_webhook_events"
    ),
}


def schedules() -> dict[str, tuple[str, int]]:
    """Return the dotted path and the interval in minutes of each scheduled task, by the schedule's name."""
    return {
        "close gaps in the index": ("memories.tasks.close_gaps", 5),
        "run index jobs": ("memories.tasks.run_index_jobs", 1),
        "count search terms": ("memories.tasks.refresh_term_statistics", 15),
        "train the vector index": ("memory_project.tasks.train_vector_index", 15),
        "delete closed index jobs": ("memories.tasks.delete_closed_jobs", 60),
        "enrich long-term memories": ("memories.conversation.tasks.enrich", 1),
        "consolidate conversations": ("memories.conversation.tasks.consolidate", 10),
        "delete expired cached answers": ("memories.conversation.tasks.delete_expired_answers", 10),
        "delete expired rows": ("memory_project.tasks.delete_expired_rows", 60),
        "purge deleted graph entities": ("knowledge.graph.tasks.purge", 1_440),
        "propose graph maintenance": ("knowledge.graph.tasks.propose_maintenance", 1_440),
        "go on with jobs": ("foundation.work.jobs.go_on", 1),
        "mail notifications": ("memory_project.tasks.mail_notifications", 1),
        "send the weekly digest": ("memory_project.tasks.send_digest", 720),
        "notify of memories that end": ("memory_project.tasks.notify_ends", 60),
        "alert about old reviews": ("memory_project.tasks.alert_about_reviews", 60),
        "suggest from conversations": ("memory_project.tasks.suggest_from_conversations", 60),
        "suggest open questions": ("memory_project.tasks.suggest_open_questions", 1_440),
        "send webhook events": ("memory_project.notifications.webhooks.tasks.send_webhook_events", 1),
        "send webhooks": ("memory_project.tasks.send_webhooks", 60),
        "run subscriptions to sources": ("memory_project.exchange.subscriptions.tasks.queue_due", 1),
        "check other systems": ("memory_project.operating.doctor.tasks.check_health", 10),
        "delete expired analyses": ("analysis.tasks.delete_expired_sessions", 60),
        "run checks of memories": ("analysis.tasks.run_due_checks", 10),
        "link memories to entities": ("knowledge.tasks.link_memories", 10),
        "find contradictions": ("knowledge.tasks.find_contradictions", 15),
        "quiet unused memories": ("knowledge.tasks.quiet_unused_memories", 60),
        "compute the knowledge debt": ("memory_project.tasks.compute_debt", 60),
        "write the daily backup": ("memory_project.operating.backups.tasks.run_if_due", 10),
        "update lists of erased memories": ("memory_project.operating.backups.tasks.update_lists", 5),
        "compare memories with the catalog": ("knowledge.tasks.check_freshness", settings.STALENESS_INTERVAL_MIN),
    }


def timeouts() -> dict[str, int]:
    """Return the seconds after which a run is stopped, by the schedule's name, where the queue's timeout is too short.

    The queue delivers the task again while it runs, so it must return at once if another process is at it.
    """
    return {"write the daily backup": settings.BACKUP_TIMEOUT_MIN * 60}


def update_schedules() -> None:
    """Make the schedules of functions in APPS equal to `schedules()` and to what operators have set. Safe to repeat.

    Schedules of other functions stay, because an operator has added them.
    """
    Schedule = apps.get_model("django_q", "Schedule")
    set_by_operators = apps.get_model("preferences", "ScheduleSetting").objects.in_bulk()
    for name, (function, usual) in schedules().items():
        setting = set_by_operators.get(name)
        values: dict[str, Any] = {
            "func": function,
            "schedule_type": "I",
            "minutes": setting.minutes or usual if setting else usual,
            "repeats": PAUSED if setting and setting.is_paused else FOREVER,
        }
        if name in timeouts():
            values["kwargs"] = repr({"q_options": {"timeout": timeouts()[name]}})
        Schedule.objects.update_or_create(name=name, defaults=values)
    our_functions = Q()
    for app in APPS:
        our_functions |= Q(func__startswith=f"{app}.")
    Schedule.objects.filter(our_functions).exclude(name__in=schedules()).delete()


def change_schedule(caller: Caller, *, name: str, minutes: int, is_paused: bool) -> None:
    """Set the interval of one of our schedules, or pause it. Raises Forbidden unless the caller is an operator."""
    _require_operator(caller)
    function, usual = _known(name)
    minutes = validate(Minutes, minutes, "minutes")
    Schedule = apps.get_model("django_q", "Schedule")
    setting = apps.get_model("preferences", "ScheduleSetting")
    with transaction.atomic():
        row = Schedule.objects.select_for_update().filter(name=name, func=function).first()
        if row is None:
            raise Conflict(
                gettext("%(name)r was changed by an upgrade: load the page again") % {"name": name}, field="name"
            )
        if minutes == usual and not is_paused:
            setting.objects.filter(pk=name).delete()
        else:
            own = {"minutes": minutes if minutes != usual else None, "is_paused": is_paused}
            changed = {"changed_by": caller.email, "changed_at": timezone.now()}
            setting.objects.update_or_create(pk=name, defaults=own | changed)
        row.minutes = minutes
        row.repeats = PAUSED if is_paused else FOREVER
        row.next_run = first_run(next_run=row.next_run, minutes=minutes, now=timezone.now())
        row.save(update_fields=["minutes", "repeats", "next_run"])


def run_soon(caller: Caller, *, name: str) -> None:
    """Let a worker run a schedule as soon as it can. Raises Conflict if the schedule is paused."""
    _require_operator(caller)
    _known(name)
    rows = apps.get_model("django_q", "Schedule").objects.filter(name=name).exclude(repeats=PAUSED)
    if not rows.update(next_run=timezone.now()):
        raise Conflict(gettext("is paused: resume it first"), field="name")


def first_run(*, next_run: datetime, minutes: int, now: datetime) -> datetime:
    """Return when a schedule runs first after its interval has become `minutes`.

    A shorter interval counts from now. A schedule that was paused does not run at once for the time that it has missed.
    """
    soonest = now + timedelta(minutes=minutes)
    return soonest if next_run < now else min(next_run, soonest)


def next_runs(*, next_run: datetime, minutes: int) -> list[datetime]:
    """Return the times of the next RUNS_SHOWN runs, as the worker computes them."""
    schedule = apps.get_model("django_q", "Schedule")(schedule_type="I", minutes=minutes)
    runs = [next_run]
    while len(runs) < RUNS_SHOWN:
        runs.append(schedule.calculate_next_run(runs[-1]))
    return runs


def _known(name: str) -> tuple[str, int]:
    if name not in schedules():
        raise NotFound(gettext("there is no schedule %(name)r") % {"name": name[:60]}, field="name")
    return schedules()[name]


def _require_operator(caller: Caller) -> None:
    if not caller.is_operator:
        raise Forbidden(gettext("only operators can change schedules"))


def rename_queued_tasks() -> None:
    """Update the function paths of queued tasks by RENAMED_TASKS."""
    OrmQ = apps.get_model("django_q", "OrmQ")
    for row in OrmQ.objects.all():
        try:
            task = task_queue.task_of(row.payload)
        except Exception:  # unpickling can raise anything; System reports the row
            continue
        if task.get("func") in RENAMED_TASKS:
            payload = SignedPackage.dumps({**task, "func": RENAMED_TASKS[task["func"]]})
            OrmQ.objects.filter(pk=row.pk).update(payload=payload)
