from __future__ import annotations

from pydoc import locate
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone
from django_q.conf import Conf
from django_q.models import OrmQ, Schedule
from django_q.tasks import async_task

from memory_project.operating.shared import task_queue
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


def test_migrate_renames_queued_tasks(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    OrmQ.objects.all().delete()
    for path in ("memory_project.notices.inbox.mail_one", "memories.tasks.close_gaps"):
        async_task(path, 7)
    with monkeypatch.context() as changed:
        changed.setattr(Conf, "SECRET_KEY", "an earlier key")
        async_task("memory_project.notices.inbox.mail_one", 8)
    settings.SECRET_KEY_FALLBACKS = ["an earlier key"]
    OrmQ.objects.create(key="default", payload="unreadable", lock=timezone.now())
    call_command("migrate", verbosity=0)
    payloads = list(OrmQ.objects.order_by("id").values_list("payload", flat=True))
    assert payloads.pop() == "unreadable"
    tasks = [(task["func"], task["args"]) for task in map(task_queue.task_of, payloads)]
    assert tasks == [
        ("memory_project.tasks.mail_notification", (7,)),
        ("memories.tasks.close_gaps", (7,)),
        ("memory_project.tasks.mail_notification", (8,)),
    ]
