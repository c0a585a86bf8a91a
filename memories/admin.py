"""The admin's view of memories: to look and filter; changes go through services, by the actions here."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from memories.access import caller_of
from memories.contract.text import visible
from memories.history import Change, history
from memories.models import IndexJob, MemoryRecord, Persona, PersonaMembership, Tombstone
from memories.writing import batches


class ReadOnlyAdmin(admin.ModelAdmin[Any]):
    """Rows that services write: shown, never edited or deleted here."""

    show_full_result_count = False
    show_facets = admin.ShowFacets.ALLOW
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class AdminsOnly(ReadOnlyAdmin):
    """Rows that tell of everybody's memories."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)


@admin.register(MemoryRecord)
class MemoryRecordAdmin(ReadOnlyAdmin):
    list_display = ["fact", "badge", "category", "created_by", "created_at"]
    list_filter = ["status", "dimension", "category", "confidence", "visibility", "persona", "source", "tier"]
    search_fields = ["content"]
    search_help_text = "Words of the text."
    readonly_fields = ["changes"]
    exclude = ["embedding", "search", "embedding_text_hash", "supersedes"]  # which may be another's private text
    actions = ["forget", "restore", "verify"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[MemoryRecord]:
        rows: QuerySet[MemoryRecord] = super().get_queryset(request)
        return rows.filter(pk__in=MemoryRecord.objects.visible_to(caller_of(request, door="admin")).values("pk")).defer(
            "embedding", "search"
        )

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> MemoryRecord | None:
        record: MemoryRecord | None = super().get_object(request, *args, **kwargs)
        if record is not None:
            record.visible_changes = history(caller_of(request, door="admin"), record)  # type: ignore[attr-defined]
        return record

    @admin.display(description="history")
    def changes(self, record: MemoryRecord) -> SafeString:
        """As the portal tells it to this person: what is hidden there is hidden here."""
        visible_changes: list[Change] = getattr(record, "visible_changes", [])
        rows = ((f"{c.at:%Y-%m-%d %H:%M}", c.change, c.by, c.reason, visible(c.after.content)) for c in visible_changes)
        return format_html("<ol>{}</ol>", format_html_join("", "<li>{} {} by {} {} <q>{}</q></li>", rows))

    @admin.display(description="memory")
    def fact(self, record: MemoryRecord) -> str:
        return str(record)

    @admin.display(description="status", ordering="status")
    def badge(self, record: MemoryRecord) -> SafeString:
        return format_html('<span class="badge {0}">{0}</span>', record.status)

    @admin.action(description="Forget (archive)")
    def forget(self, request: HttpRequest, rows: QuerySet[MemoryRecord]) -> HttpResponse:
        return self._together(request, rows, "forget")

    @admin.action(description="Restore")
    def restore(self, request: HttpRequest, rows: QuerySet[MemoryRecord]) -> HttpResponse:
        return self._together(request, rows, "restore")

    @admin.action(description="Still true (verify)")
    def verify(self, request: HttpRequest, rows: QuerySet[MemoryRecord]) -> HttpResponse:
        return self._together(request, rows, "verify")

    def _together(self, request: HttpRequest, rows: QuerySet[MemoryRecord], act: str) -> HttpResponse:
        """One service call a row; the batch's page shows how far it is, each outcome, and the way back."""
        ids = rows.values_list("pk", flat=True)[: batches.UNITS_MAX + 1]
        caller = caller_of(request, door="admin")
        batch = batches.start(caller=caller, act=act, unit_ids=list(ids), back_to=request.get_full_path())
        return redirect("batch", batch_id=batch.pk)


class MembershipInline(admin.TabularInline[PersonaMembership, Persona]):
    model = PersonaMembership
    extra = 1
    autocomplete_fields = ["user"]


@admin.register(Persona)
class PersonaAdmin(admin.ModelAdmin[Persona]):
    list_display = ["name", "title", "is_default", "tools_allow", "tools_deny"]
    search_fields = ["name", "title"]
    inlines = [MembershipInline]

    def get_readonly_fields(self, request: HttpRequest, obj: Persona | None = None) -> list[str]:
        return ["name", "is_default"] if obj else ["is_default"]  # memories carry the name

    def has_delete_permission(self, request: HttpRequest, obj: Persona | None = None) -> bool:
        return obj is not None and not obj.is_default and super().has_delete_permission(request, obj)


@admin.register(IndexJob)
class IndexJobAdmin(AdminsOnly):
    list_display = [
        "source_kind",
        "source_id",
        "status",
        "trigger_kind",
        "attempts",
        "last_error",
        "created_at",
    ]
    list_filter = ["status", "source_kind", "trigger_kind"]


@admin.register(Tombstone)
class TombstoneAdmin(AdminsOnly):
    list_display = ["record_id", "created_by", "persona", "erased_by", "erased_at"]
