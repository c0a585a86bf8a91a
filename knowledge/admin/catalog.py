"""Admin pages of the embedded catalog or the copy of DataHub, and of baselines."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from foundation.links import url_for
from knowledge.models import CatalogAspect, CatalogCursor, CatalogEntity, EntityBaseline
from memories.admin.base import OperatorsOnly, ReadOnlyAdmin, admin_caller, entity_names
from memories.models import MemoryRecord


@admin.register(CatalogEntity)
class CatalogEntityAdmin(ReadOnlyAdmin):
    list_display = ["__str__", "entity_type", "platform", "description", "deprecated", "removed", "page"]
    list_filter = ["entity_type", "platform", "deprecated", "removed"]
    search_fields = ["name", "qualified_name", "urn"]
    exclude = ["search"]
    readonly_fields = ["page"]

    @admin.display(description=gettext_lazy("page"))
    def page(self, entity: CatalogEntity) -> SafeString:
        return format_html('<a href="{}">{}</a>', url_for("entity", entity.urn), gettext("Open in the portal"))


@admin.register(CatalogAspect)
class CatalogAspectAdmin(ReadOnlyAdmin):
    list_display = ["entity", "aspect", "version", "is_latest", "created_at"]
    list_filter = ["aspect", "is_latest"]
    search_fields = ["urn"]
    date_hierarchy = "created_at"

    @admin.display(description=gettext_lazy("entity"), ordering="urn")
    def entity(self, row: CatalogAspect) -> str:
        return entity_names([row.urn])


@admin.register(CatalogCursor)
class CatalogCursorAdmin(OperatorsOnly):
    """The position in DataHub's event stream, the time of the last copy, and the note of the last freshness check."""

    list_display = ["name", "value", "updated_at"]


@admin.register(EntityBaseline)
class EntityBaselineAdmin(ReadOnlyAdmin):
    list_display = ["record", "entity", "existed", "deprecated", "taken_at", "checked_at", "to_verify"]
    list_filter = ["existed", "deprecated"]
    search_fields = ["urn"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[EntityBaseline]:
        visible = MemoryRecord.objects.visible_to(admin_caller(request)).values("pk")
        return EntityBaseline.objects.filter(record__in=visible).select_related("record")

    @admin.display(description=gettext_lazy("entity"), ordering="urn")
    def entity(self, baseline: EntityBaseline) -> str:
        return entity_names([baseline.urn])
