from __future__ import annotations

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from foundation.links import url_for
from foundation.operations.errors import DomainError
from memories.admin.base import ReadOnlyAdmin, admin_caller, age
from memories.models import Batch
from memories.writing import bulk_actions


@admin.register(Batch)
class BatchAdmin(ReadOnlyAdmin):
    """Batches of bulk actions. Users see their own batches, admins see all."""

    list_display = ["label", "progress", "refused", "note", "created_by", "captured", "page"]
    list_filter = ["act", "finished_at"]
    date_hierarchy = "created_at"
    ordering = ["-created_at"]
    search_fields = ["note", "created_by"]
    fields = ["page", "label", "progress", "refused", "note", "choice", "created_by", "created_at", "finished_at"]
    readonly_fields = ["page", "label", "progress", "refused"]
    actions = ["undo"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Batch]:
        caller = admin_caller(request)
        return bulk_actions.with_counts(Batch.objects.all() if caller.is_admin else bulk_actions.owned_by(caller))

    @admin.action(description=gettext_lazy("Undo"))
    def undo(self, request: HttpRequest, rows: QuerySet[Batch]) -> None:
        for batch in rows:
            try:
                # Raises NotFound for another user's batch, even if an admin sees it in the list.
                bulk_actions.undo(admin_caller(request), batch_id=batch.pk)
            except DomainError as error:
                messages.error(request, f"{batch}: {error.message}")
            else:
                messages.success(request, gettext("%(batch)s: the undo has started.") % {"batch": batch})

    @admin.display(description=gettext_lazy("action"))
    def label(self, batch: Batch) -> str:
        act = bulk_actions.BULK_ACTIONS.get(batch.act)
        return f"{act.done if act else batch.act}: {batch.unit_count:,}"

    @admin.display(description=gettext_lazy("done"))
    def progress(self, batch: Batch) -> str:
        if batch.finished_at:
            return gettext("all")
        return gettext("%(done)s of %(all)s") % {"done": batch.processed, "all": batch.unit_count}

    @admin.display(description=gettext_lazy("refused"))
    def refused(self, batch: Batch) -> int:
        return int(batch.refused)

    @admin.display(description=gettext_lazy("started"), ordering="created_at")
    def captured(self, batch: Batch) -> str:
        return age(batch.created_at)

    @admin.display(description=gettext_lazy("page"))
    def page(self, batch: Batch) -> SafeString:
        return format_html('<a href="{}">{}</a>', url_for("batch", batch.pk.hex), gettext("Open"))
