"""The admin's view of memories: to look and filter; changes go through services, by the actions here."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from memories import queries
from memories.access import caller_of
from memories.admin_actions import AdminAct
from memories.contract.text import visible
from memories.history import Change, chain, history
from memories.models import (
    Correction,
    IndexJob,
    MemoryRecord,
    Persona,
    PersonaMembership,
    StaleMemory,
    Tombstone,
)


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


ACTS = [
    AdminAct("forget", "Forget", "Forgotten memories are kept, but no longer recalled. Restore brings them back."),
    AdminAct("restore", "Restore", "Archived and stale memories become active again."),
    AdminAct("verify", "Still true", "Stale memories become active again; the history keeps who verified them."),
]


def entity_names(urns: list[str]) -> str:
    """The telling ends of some URNs: `sales.orders` of a data set."""
    names = [urn.split(",")[1] if "," in urn else urn.rsplit(":", 1)[-1] for urn in urns[:3]]
    return ", ".join(names) + (", …" if len(urns) > len(names) else "")


@admin.register(MemoryRecord)
class MemoryRecordAdmin(ReadOnlyAdmin):
    list_display = [
        "fact", "badge", "category", "confidence", "persona", "created_by", "about", "created_at", "stale_reason",
    ]  # fmt: skip
    list_filter = ["status", "dimension", "category", "confidence", "visibility", "persona", "source", "tier"]
    ordering = ["-created_at"]
    search_fields = ["content"]
    search_help_text = "Words of the text, or the URN of an entity."
    readonly_fields = ["chain", "changes"]
    exclude = ["embedding", "search", "embedding_text_hash", "supersedes"]  # which may be another's private text
    actions = [act.as_action() for act in ACTS]

    def get_queryset(self, request: HttpRequest) -> QuerySet[MemoryRecord]:
        rows: QuerySet[MemoryRecord] = super().get_queryset(request)
        return rows.filter(pk__in=MemoryRecord.objects.visible_to(caller_of(request, door="admin")).values("pk")).defer(
            "embedding", "search"
        )

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> MemoryRecord | None:
        record: MemoryRecord | None = super().get_object(request, *args, **kwargs)
        if record is not None:
            caller = caller_of(request, door="admin")
            record.visible_changes = history(caller, record)  # type: ignore[attr-defined]
            record.visible_chain = chain(caller, record)  # type: ignore[attr-defined]
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

    @admin.display(description="about")
    def about(self, record: MemoryRecord) -> str:
        return entity_names(record.entity_urns)

    @admin.display(description="correction chain")
    def chain(self, record: MemoryRecord) -> SafeString:
        """Its corrections, oldest first, as far as this person may see them."""
        links: list[MemoryRecord] = getattr(record, "visible_chain", [])
        rows = ((link.get_absolute_url(), visible(link.content), link.status) for link in links)
        return format_html("<ol>{}</ol>", format_html_join("", '<li><a href="{}">{}</a> ({})</li>', rows))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[MemoryRecord], search_term: str
    ) -> tuple[QuerySet[MemoryRecord], bool]:
        if search_term.startswith("urn:li:"):
            return queryset.filter(entity_urns__contains=[search_term.strip()]), False
        return super().get_search_results(request, queryset, search_term)


@admin.register(StaleMemory)
class StaleMemoryAdmin(MemoryRecordAdmin):
    """Those that the reader decides, longest waiting first."""

    list_display = [
        "fact",
        "stale_reason",
        "stale_at",
        "category",
        "persona",
        "created_by",
        "about",
        "last_verified_at",
    ]
    list_filter = ["category", "confidence", "persona"]
    ordering = ["stale_at"]
    actions = [act.as_action() for act in ACTS if act.name != "restore"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[MemoryRecord]:
        decidable = queries.mine_to_review(caller_of(request, door="admin")).order_by().values("pk")
        return super().get_queryset(request).filter(pk__in=decidable)


@admin.register(Correction)
class CorrectionAdmin(MemoryRecordAdmin):
    """What took another memory's place, and what was believed before as far as the reader may see it."""

    list_display = ["fact", "before", "badge", "persona", "created_by", "created_at"]
    list_filter = ["status", "category", "persona"]
    actions = [act.as_action() for act in ACTS if act.name == "forget"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[MemoryRecord]:
        corrections = queries.corrections(caller_of(request, door="admin")).order_by().values("pk")
        earlier = MemoryRecord.objects.visible_to(caller_of(request, door="admin")).filter(pk=OuterRef("supersedes_id"))
        rows = super().get_queryset(request).filter(pk__in=corrections)
        return rows.annotate(text_before=Subquery(earlier.values("content")[:1]))

    @admin.display(description="instead of")
    def before(self, record: MemoryRecord) -> str:
        text = visible(getattr(record, "text_before", None) or "not yours to see")
        return text if len(text) <= 80 else f"{text[:79]}…"


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
