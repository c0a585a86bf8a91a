from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy, ngettext

from foundation.operations.errors import DomainError
from memories.admin.base import ReadOnlyAdmin, admin_caller
from memories.models import Period
from memories.operations import OpenPeriod, PeriodOperation
from memories.writing import periods


class PeriodForm(forms.ModelForm[Period]):
    class Meta:
        model = Period
        fields = ["name", "note"]


@admin.register(Period)
class PeriodAdmin(ReadOnlyAdmin):
    """Periods on which memories may depend. Admins open and end them by the services."""

    form = PeriodForm
    list_display = ["name", "note", "opened_at", "opened_by", "ended_at", "ended_by"]
    list_filter = [("ended_at", admin.EmptyFieldListFilter)]
    search_fields = ["name", "note"]
    fields = ["name", "note", "opened_at", "opened_by", "ended_at", "ended_by"]
    actions = ["end", "reopen"]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields if obj else ["name", "note"]

    def save_model(self, request: HttpRequest, obj: Period, form: Any, change: bool) -> None:
        operation = OpenPeriod.read({name: form.cleaned_data[name] for name in ("name", "note")})
        obj.pk = periods.open_period(admin_caller(request), operation).pk

    @admin.action(description=gettext_lazy("End: memories that depend on it are no longer recalled"))
    def end(self, request: HttpRequest, rows: QuerySet[Period]) -> None:
        self._each(request, rows, periods.end_period)

    @admin.action(description=gettext_lazy("Open again: memories that depend on it are recalled again"))
    def reopen(self, request: HttpRequest, rows: QuerySet[Period]) -> None:
        self._each(request, rows, periods.reopen_period)

    def _each(self, request: HttpRequest, rows: QuerySet[Period], perform: Callable[..., tuple[Period, int]]) -> None:
        for row in rows:
            try:
                _, count = perform(admin_caller(request), PeriodOperation(name=row.name))
            except DomainError as error:
                messages.error(request, f"{row.name}: {error.message}")
            else:
                text = ngettext("%(name)s: %(count)s memory changed.", "%(name)s: %(count)s memories changed.", count)
                messages.success(request, text % {"name": row.name, "count": count})
