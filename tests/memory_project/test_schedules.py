from __future__ import annotations

from pydoc import locate

import pytest
from django.core.management import call_command
from django_q.models import OrmQ, Schedule
from django_q.tasks import async_task

from memory_project.schedules import RENAMED_TASKS, schedules

pytestmark = pytest.mark.django_db


def test_scheduled_and_renamed_functions_exist() -> None:
    paths = [function for function, _ in schedules().values()] + list(RENAMED_TASKS.values())
    assert [path for path in paths if not callable(locate(path))] == []


def test_migrate_updates_moved_schedules_and_deletes_dropped_ones() -> None:
    name, (function, minutes) = next(iter(schedules().items()))
    Schedule.objects.filter(name=name).update(func="memories.gone.close_gaps", minutes=minutes + 1)
    Schedule.objects.create(name="of an earlier version", func="memories.gone.sweep", schedule_type="I", minutes=1)
    Schedule.objects.create(name="an operator's own", func="site_tasks.report", schedule_type="I", minutes=1)
    call_command("migrate", verbosity=0)
    assert set(Schedule.objects.values_list("name", flat=True)) == {*schedules(), "an operator's own"}
    assert Schedule.objects.filter(name=name, func=function, minutes=minutes).exists()


def test_migrate_renames_queued_tasks(settings: object) -> None:
    OrmQ.objects.all().delete()
    for path in ("memory_project.notices.inbox.mail_one", "memories.tasks.close_gaps"):
        async_task(path, 7)
    call_command("migrate", verbosity=0)
    tasks = [(row.task["func"], row.task["args"]) for row in OrmQ.objects.order_by("id")]
    assert tasks == [("memory_project.tasks.mail_notification", (7,)), ("memories.tasks.close_gaps", (7,))]
