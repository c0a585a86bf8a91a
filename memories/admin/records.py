"""Admin pages of memories: all readable memories, stale memories, and corrections."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from memories import queries
from memories.admin.actions import AdminAct
from memories.admin.base import PickFilter, ReadOnlyAdmin, admin_caller, age, badge, entity_names, stacked
from memories.contract.display import show_invisible
from memories.contract.urls import url_for
from memories.history import HistoryEntry, chain, history
from memories.identity.caller import Caller
from memories.models import Batch, Correction, MemoryRecord, Persona, StaleMemory, Status, Visibility

BATCHES_SHOWN = 10
MAX_FACT = 200  # maximum number of characters of a memory's text in a list


def decidable(caller: Caller, rows: QuerySet[Any]) -> QuerySet[Any]:
    """Filter to the caller's own memories and the stale ones that the caller may decide about. Admins get all."""
    if caller.is_admin:
        return rows
    return rows.filter(Q(created_by=caller.email) | Q(status=Status.STALE) & queries.decided_by(caller))


def owned(caller: Caller, rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows if caller.is_admin else rows.filter(created_by=caller.email)


def persona_choices(caller: Caller) -> list[tuple[str, str]]:
    rows = Persona.objects.all() if caller.is_admin else Persona.objects.filter(name__in=caller.personas)
    return [(persona.name, str(persona)) for persona in rows]


FORGET = AdminAct(
    "forget",
    "Forget",
    "The memories are archived: kept, but no longer recalled. Their owners and admins can restore them.",
    narrow=decidable,
)
RESTORE = AdminAct("restore", "Restore", "Archived and stale memories become active again.", narrow=owned)
VERIFY = AdminAct(
    "verify",
    "Still true",
    "Stale memories become active again. The history shows who verified them.",
    narrow=decidable,
)
CORRECT = AdminAct(
    "correct",
    "Correct",
    "The new text replaces the memory. The old text remains in the correction chain.",
    asks_text=True,
    choice_label="The new text",
    narrow=decidable,
)
SHARE = AdminAct(
    "share",
    "Share",
    "Changes who may read the memories.",
    choices=lambda caller: [(value, str(label)) for value, label in Visibility.choices],
    choice_label="Who may read the memories",
    narrow=owned,
)
REASSIGN = AdminAct(
    "reassign",
    "Move to another persona",
    "Members of that persona can then read the memories that are not private, and its curators can review them.",
    choices=persona_choices,
    choice_label="The persona",
    narrow=owned,
)


class EntityFilter(PickFilter):
    title, parameter_name, kind, column = "entity", "entity", "entity", "entity_urns__contains"


class AuthorFilter(PickFilter):
    title, parameter_name, kind, column = "author", "author", "person", "created_by"


class TagFilter(PickFilter):
    title, parameter_name, kind, column = "tag", "tag", "tag", "tags__contains"


SHOWN = (
    "portal", "content", "badge", "dimension", "category", "confidence", "visibility", "persona", "created_by",
    "created_at", "about", "tags", "stale_reason", "stale_at", "last_verified_at", "chain", "changes", "batches",
)  # fmt: skip
STORED = ("id", "metadata", "related_columns", "entity_urns", "source", "tier", "importance", "access_count")


@admin.register(MemoryRecord)
class MemoryRecordAdmin(ReadOnlyAdmin):
    list_display = [
        "fact", "kind", "author", "captured", "stale_reason",
    ]  # fmt: skip
    list_filter = [
        "status", "category", "confidence", "dimension", "visibility", "persona", EntityFilter, AuthorFilter, TagFilter,
        "source", "tier",
    ]  # fmt: skip
    date_hierarchy = "created_at"
    ordering = ["-created_at"]
    search_fields = ["content"]
    search_help_text = "Words of the text, or the URN of an entity."
    fieldsets = [(None, {"fields": SHOWN}), ("Stored fields", {"classes": ["collapse"], "fields": STORED})]
    readonly_fields = ["portal", "badge", "about", "chain", "changes", "batches"]
    actions = [act.as_action() for act in (VERIFY, CORRECT, FORGET, RESTORE, SHARE, REASSIGN)]
    view_page = "admin:memories_memoryrecord_changelist"
    presets: tuple[tuple[str, str], ...] = (
        ("Active", "status__exact=active"),
        ("Stale", "status__exact=stale"),
        ("Visible to everyone", "visibility__exact=everyone&status__exact=active"),
        ("Low confidence", "confidence__exact=low&status__exact=active"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[MemoryRecord]:
        return MemoryRecord.objects.visible_to(admin_caller(request)).defer("search")

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> MemoryRecord | None:
        record: MemoryRecord | None = super().get_object(request, *args, **kwargs)
        if record is not None:
            caller = admin_caller(request)
            # Loaded here, because the methods that display them don't get the request.
            record.visible_changes = history(caller, record)  # type: ignore[attr-defined]
            record.visible_chain = chain(caller, record)  # type: ignore[attr-defined]
            record.visible_batches = batches_with(caller, record)  # type: ignore[attr-defined]
        return record

    @admin.display(description="page")
    def portal(self, record: MemoryRecord) -> SafeString:
        return format_html('<a href="{}">Open in the portal</a>', url_for("memory", record.pk.hex))

    @admin.display(description="batches")
    def batches(self, record: MemoryRecord) -> SafeString:
        rows: list[Batch] = getattr(record, "visible_batches", [])
        lines = ((url_for("batch", batch.pk.hex), str(batch), f"{batch.created_at:%Y-%m-%d %H:%M}") for batch in rows)
        return format_html("<ul>{}</ul>", format_html_join("", '<li><a href="{}">{}</a> {}</li>', lines))

    @admin.display(description="history")
    def changes(self, record: MemoryRecord) -> SafeString:
        visible_changes: list[HistoryEntry] = getattr(record, "visible_changes", [])
        rows = (
            (f"{c.at:%Y-%m-%d %H:%M}", c.change, c.by, c.reason, show_invisible(c.after.content))
            for c in visible_changes
        )
        return format_html("<ol>{}</ol>", format_html_join("", "<li>{} {} by {} {} <q>{}</q></li>", rows))

    @admin.display(description="memory")
    def fact(self, record: MemoryRecord) -> SafeString:
        return stacked(Truncator(show_invisible(record.content)).chars(MAX_FACT), entity_names(record.entity_urns))

    @admin.display(description="status", ordering="status")
    def kind(self, record: MemoryRecord) -> SafeString:
        return stacked(self.badge(record), f"{record.category.replace('_', ' ')}, {record.confidence}")

    @admin.display(description="by", ordering="created_by")
    def author(self, record: MemoryRecord) -> SafeString:
        return stacked(record.created_by, f"{record.persona}, {record.visibility}")

    @admin.display(description="status", ordering="status")
    def badge(self, record: MemoryRecord) -> SafeString:
        return badge(record.status)

    @admin.display(description="about")
    def about(self, record: MemoryRecord) -> str:
        return entity_names(record.entity_urns)

    @admin.display(description="captured", ordering="created_at")
    def captured(self, record: MemoryRecord) -> str:
        return age(record.created_at)

    @admin.display(description="correction chain")
    def chain(self, record: MemoryRecord) -> SafeString:
        links: list[MemoryRecord] = getattr(record, "visible_chain", [])
        rows = ((link.get_absolute_url(), show_invisible(link.content), link.status) for link in links)
        return format_html("<ol>{}</ol>", format_html_join("", '<li><a href="{}">{}</a> ({})</li>', rows))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[MemoryRecord], search_term: str
    ) -> tuple[QuerySet[MemoryRecord], bool]:
        if search_term.startswith("urn:li:"):
            return queryset.filter(entity_urns__contains=[search_term.strip()]), False
        return super().get_search_results(request, queryset, search_term)


def batches_with(caller: Caller, record: MemoryRecord) -> list[Batch]:
    rows = Batch.objects.filter(unit_ids__contains=[record.pk])
    rows = rows if caller.is_admin else rows.filter(created_by=caller.email)
    return list(rows.defer("unit_ids", "outcomes").order_by("-created_at")[:BATCHES_SHOWN])


@admin.register(StaleMemory)
class StaleMemoryAdmin(MemoryRecordAdmin):
    """Stale memories that the user may decide about, longest stale first."""

    list_display = ["fact", "stale_reason", "waits", "kind", "author", "last_verified_at"]
    list_filter = ["category", "confidence", "persona", EntityFilter, AuthorFilter]
    date_hierarchy = "stale_at"
    ordering = ["stale_at"]
    actions = [act.as_action() for act in (VERIFY, CORRECT, FORGET, SHARE)]
    view_page = "admin:memories_stalememory_changelist"
    presets = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[MemoryRecord]:
        return queries.reviewable_stale(admin_caller(request)).order_by()

    @admin.display(description="stale", ordering="stale_at")
    def waits(self, record: MemoryRecord) -> str:
        return age(record.stale_at)


@admin.register(Correction)
class CorrectionAdmin(MemoryRecordAdmin):
    """Memories that superseded another memory, with the text of that memory if the user may read it."""

    list_display = ["fact", "before", "kind", "author", "captured"]
    list_filter = ["status", "category", "persona", EntityFilter, AuthorFilter]
    actions = [act.as_action() for act in (FORGET, CORRECT, RESTORE)]
    view_page = "admin:memories_correction_changelist"
    presets = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[MemoryRecord]:
        caller = admin_caller(request)
        earlier = MemoryRecord.objects.visible_to(caller).filter(pk=OuterRef("supersedes_id"))
        return queries.corrections(caller).annotate(text_before=Subquery(earlier.values("content")[:1]))

    @admin.display(description="replaces")
    def before(self, record: MemoryRecord) -> str:
        text = show_invisible(getattr(record, "text_before", None) or "not visible to you")
        return text if len(text) <= 80 else f"{text[:79]}…"
