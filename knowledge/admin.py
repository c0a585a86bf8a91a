from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from knowledge.models import CatalogAspect, CatalogCursor, CatalogEntity, Change, Changeset, EntityBaseline, Insight
from memories.access import caller_of
from memories.admin import ReadOnlyAdmin
from memories.models import MemoryRecord


@admin.register(Insight)
class InsightAdmin(ReadOnlyAdmin):
    list_display = ["text", "badge", "captured_by", "reviewed_by", "reviewed_at", "applied_at"]
    list_filter = ["state", "record__category", "record__persona"]
    search_fields = ["record__content"]
    exclude = ["replaces"]  # which may be another's private text

    def get_queryset(self, request: HttpRequest) -> QuerySet[Insight]:
        return Insight.objects.visible_to(caller_of(request, door="admin")).select_related("record")

    @admin.display(description="insight")
    def text(self, insight: Insight) -> str:
        return str(insight.record)

    @admin.display(description="state", ordering="state")
    def badge(self, insight: Insight) -> SafeString:
        return format_html('<span class="badge {0}">{0}</span>', insight.state)

    @admin.display(description="captured by", ordering="record__created_by")
    def captured_by(self, insight: Insight) -> str:
        return insight.record.created_by


class ChangeInline(admin.TabularInline[Change, Changeset]):
    model = Change
    fields = ["change_type", "urn", "aspect", "path", "had_before", "before", "written", "outcome", "error"]
    readonly_fields = ["change_type", "urn", "aspect", "path", "had_before", "before", "written", "outcome", "error"]
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Changeset)
class ChangesetAdmin(ReadOnlyAdmin):
    list_display = ["created_at", "entity_urn", "state", "catalog", "applied_by", "rolled_back_by"]
    list_filter = ["state", "catalog"]
    search_fields = ["entity_urn", "applied_by"]
    inlines = [ChangeInline]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Changeset]:
        return Changeset.objects.visible_to(caller_of(request, door="admin"))


@admin.register(CatalogEntity)
class CatalogEntityAdmin(ReadOnlyAdmin):
    list_display = ["name", "entity_type", "platform", "deprecated", "removed"]
    list_filter = ["entity_type", "platform", "deprecated", "removed"]
    search_fields = ["name", "qualified_name"]
    exclude = ["search"]


@admin.register(CatalogAspect)
class CatalogAspectAdmin(ReadOnlyAdmin):
    list_display = ["urn", "aspect", "version", "is_latest", "created_at"]
    list_filter = ["aspect", "is_latest"]
    search_fields = ["urn"]


@admin.register(CatalogCursor)
class CatalogCursorAdmin(ReadOnlyAdmin):
    """How far events and the mirror have got, and what the watcher's last sweep could not do."""

    list_display = ["name", "value", "updated_at"]


@admin.register(EntityBaseline)
class EntityBaselineAdmin(ReadOnlyAdmin):
    list_display = ["record", "urn", "existed", "deprecated", "taken_at", "checked_at", "to_verify"]
    list_filter = ["existed", "deprecated"]
    search_fields = ["urn"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[EntityBaseline]:
        visible = MemoryRecord.objects.visible_to(caller_of(request, door="admin")).values("pk")
        return EntityBaseline.objects.filter(record__in=visible).select_related("record")
