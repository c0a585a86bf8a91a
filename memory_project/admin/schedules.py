"""Admin pages of background work. Operators change the interval of our schedules and pause them, and nothing else.

A schedule or queued task can name any function, so editing that would be a way to run arbitrary code on the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext, gettext_lazy, ngettext
from django_q.models import Failure, OrmQ, Schedule, Success

from foundation.operations.errors import DomainError
from memories.admin.base import OperatorsOnly, admin_caller, badge, moment
from memories.admin.rows import TestAnswer
from memory_project import schedules

for model in (Schedule, Success, Failure, OrmQ):
    if admin.site.is_registered(model):
        admin.site.unregister(model)


class ScheduleForm(forms.ModelForm[Schedule]):
    minutes = forms.IntegerField(
        label=gettext_lazy("Interval in minutes"), min_value=1, max_value=schedules.MAX_MINUTES
    )
    is_paused = forms.BooleanField(
        label=gettext_lazy("Paused"),
        required=False,
        help_text=gettext_lazy("The work is left undone until you resume the schedule."),
    )

    class Meta:
        model = Schedule
        fields = ("minutes",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "is_paused" in self.fields:
            self.fields["is_paused"].initial = self.instance.repeats == schedules.PAUSED


@admin.register(Schedule)
class ScheduleAdmin(OperatorsOnly):
    form = ScheduleForm
    list_display = ["name", "func", "minutes", "state", "next_run"]
    search_fields = ["name", "func"]
    readonly_fields = ["name", "func", "usual", "next_run"]
    fields = ["name", "func", "usual", "minutes", "is_paused", "next_run"]
    actions = ["run_now"]
    test_title = gettext_lazy("Preview the next runs")

    def has_change_permission(self, request: HttpRequest, obj: Schedule | None = None) -> bool:
        # the functions of other schedules are an operator's own, who changes them where they were added
        return self.has_view_permission(request) and (obj is None or obj.name in schedules.schedules())

    def row_title(self, row: Schedule) -> str:
        return str(capfirst(row.name or row.func))

    @admin.display(description=gettext_lazy("state"), ordering="repeats")
    def state(self, row: Schedule) -> SafeString:
        is_paused = row.repeats == schedules.PAUSED
        return badge("archived", gettext("paused")) if is_paused else badge("active", gettext("on"))

    @admin.display(description=gettext_lazy("usual interval"))
    def usual(self, row: Schedule) -> str:
        _, minutes = schedules.schedules().get(row.name, ("", None))
        if minutes is None:
            return "–"
        return ngettext("%(n)s minute", "%(n)s minutes", minutes) % {"n": minutes}

    def test(self, request: HttpRequest, row: Schedule, values: Mapping[str, Any]) -> TestAnswer:
        if values["is_paused"]:
            return TestAnswer(True, gettext("The schedule would be paused, so there is no next run."))
        start = schedules.first_run(next_run=row.next_run, minutes=values["minutes"], now=timezone.now())
        runs = schedules.next_runs(next_run=start, minutes=values["minutes"])
        return TestAnswer(True, gettext("The next runs:"), [moment(run) for run in runs])

    def save_model(self, request: HttpRequest, obj: Schedule, form: Any, change: bool) -> None:
        minutes = form.cleaned_data["minutes"]
        is_paused = form.cleaned_data["is_paused"]
        schedules.change_schedule(admin_caller(request), name=obj.name, minutes=minutes, is_paused=is_paused)

    @admin.action(description=gettext_lazy("Run now"))
    def run_now(self, request: HttpRequest, rows: QuerySet[Schedule]) -> None:
        for row in rows:
            try:
                schedules.run_soon(admin_caller(request), name=row.name)
            except DomainError as error:
                messages.error(request, f"{row.name}: {error.message}")
            else:
                messages.success(request, gettext("“%(name)s” runs as soon as a worker is free.") % {"name": row.name})


@admin.register(Success, Failure)
class TaskAdmin(OperatorsOnly):
    list_display = ["name", "func", "started", "stopped"]
    fields = ["name", "func", "started", "stopped", "attempt_count", "outcome"]
    search_fields = ["name", "func"]

    @admin.display(description=gettext_lazy("result"))
    def outcome(self, task: Any) -> str:
        return str(task.result)[:2_000]


@admin.register(OrmQ)
class QueueRowAdmin(OperatorsOnly):
    list_display = ["key", "lock"]
    fields = ["key", "lock"]  # the payload is left out: it is a pickle, which is unsafe to load
