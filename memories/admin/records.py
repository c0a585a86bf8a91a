"""Admin pages of memories: all readable memories, stale memories, and corrections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.formats import number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext, gettext_lazy

from foundation.links import url_for
from foundation.operations.display import show_invisible
from foundation.people.caller import Caller
from memories import queries
from memories.admin.actions import AdminAction
from memories.admin.base import (
    ConditionFilter,
    NameSearch,
    PersonaFilter,
    PickFilter,
    ReadOnlyAdmin,
    admin_caller,
    age,
    badge,
    entity_names,
    moment,
    person,
    stacked,
    with_name,
)
from memories.admin.history import HistoryLine, lines_about
from memories.admin.rows import Link, links_of
from memories.history import chain
from memories.models import IN_USE, Batch, Correction, MemoryRecord, StaleMemory, Visibility
from memories.models.validity import EXPIRED, NOT_YET
from memories.operations import MEMORY_FIELDS
from memories.retrieval.filters import RULES, WITHIN
from memories.use.reports import Reports, reports_about

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

BATCHES_SHOWN = 10
MAX_FACT = 200  # maximum number of characters of a memory's text in a list


class EntityFilter(PickFilter):
    title = gettext_lazy("entity")
    parameter_name = "entity"
    kind = "entity"
    column = "entity_urns__contains"


class AuthorFilter(PickFilter):
    title = gettext_lazy("author")
    parameter_name = "author"
    kind = "person"
    column = "created_by"


class TagFilter(PickFilter):
    title = gettext_lazy("tag")
    parameter_name = "tag"
    kind = "tag"
    column = "tags__contains"


class ReportedFilter(ConditionFilter):
    title = gettext_lazy("reported as wrong or outdated")
    parameter_name = "reported"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, StrOrPromise]]:
        return [("1", gettext_lazy("By anyone")), (str(queries.DOUBTERS), gettext_lazy("By two people or more"))]

    def condition(self, value: str) -> Q | None:
        return Q(pk__in=queries.doubted(by=int(value))) if value in ("1", str(queries.DOUBTERS)) else None


class ValidityFilter(ConditionFilter):
    title = gettext_lazy("validity")
    parameter_name = "validity"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, StrOrPromise]]:
        return [
            (WITHIN, gettext_lazy("Valid now")),
            (EXPIRED, gettext_lazy("No longer valid")),
            (NOT_YET, gettext_lazy("Not valid yet")),
        ]

    def condition(self, value: str) -> Q | None:
        rule = RULES.get(value)
        return rule() if rule else None


STORED = ("id", "metadata", "related_columns", "entity_urns", "source", "tier", "importance", "access_count")
SHOWN = (
    "content", "badge", "dimension", "category", "confidence", "visibility", "persona", "created_by", "created_at",
    "tags", "stale_reason", "stale_at", *(name for name in MEMORY_FIELDS if name not in STORED),
    "last_verified_at", "chain", "agent_reports",
)  # fmt: skip


@admin.register(MemoryRecord)
class MemoryRecordAdmin(NameSearch, ReadOnlyAdmin):
    owner_column = "created_by"
    entities_column = "entity_urns"
    list_display = ["fact", "badge", "category", "owner", "readers", "captured"]
    more_columns: tuple[str, ...] = ("confidence", "dimension", "stale_reason", "reported")
    list_filter = [
        "status", "category", "confidence", "dimension", "visibility", PersonaFilter, EntityFilter, AuthorFilter,
        TagFilter, ReportedFilter, ValidityFilter, "source", "tier",
    ]  # fmt: skip
    date_hierarchy = "created_at"
    ordering = ["-created_at"]
    search_fields = ["content"]
    search_help_text = gettext_lazy("Words of the text, a person, or the name or URN of an entity.")
    fieldsets = [
        (None, {"fields": SHOWN}),
        (gettext_lazy("Stored fields"), {"classes": ["collapse"], "fields": STORED}),
    ]
    readonly_fields = ["badge", "chain", "agent_reports"]
    actions = [AdminAction(name).for_menu() for name in ("verify", "correct", "forget", "restore", "share", "reassign")]
    presets: tuple[tuple[Any, str], ...] = (
        (gettext_lazy("Active"), "status__exact=active"),
        (gettext_lazy("Stale"), "status__exact=stale"),
        (gettext_lazy("Readable by everyone"), "visibility__exact=everyone&status__exact=active"),
        (gettext_lazy("Low confidence"), "confidence__exact=low&status__exact=active"),
        (gettext_lazy("Reported as wrong or outdated"), "reported=1"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[MemoryRecord]:
        rows = MemoryRecord.objects.visible_to(admin_caller(request)).defer("search")
        counted: QuerySet[MemoryRecord] = with_name(rows, "created_by").annotate(
            reports_open=_open_reports(), **queries.HAS_REPORTS
        )
        return counted

    def offered_columns(self, request: HttpRequest) -> list[str]:
        """Return the columns without the stored visibility, which `readers` shows with the name of the persona."""
        return [name for name in super().offered_columns(request) if name != "visibility"]

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> MemoryRecord | None:
        record: MemoryRecord | None = super().get_object(request, *args, **kwargs)
        if record is not None:
            caller = admin_caller(request)
            # Loaded here, because the method that displays it doesn't get the request.
            record.visible_chain = chain(caller, record)  # type: ignore[attr-defined]
            record.visible_reports = reports_about(caller, record)  # type: ignore[attr-defined]
        return record

    def portal_links(self, request: HttpRequest, row: MemoryRecord) -> Sequence[Link]:
        page = Link(gettext("Open in the portal"), url_for("memory", row.pk.hex))
        is_open = row.status in IN_USE
        if not is_open or not admin_caller(request).can_edit_for(row.created_by):
            return [page]
        return [page, Link(gettext("Edit"), url_for("edit-memory", row.pk.hex))]

    def history_lines(self, request: HttpRequest, row: MemoryRecord) -> Sequence[HistoryLine]:
        return lines_about(admin_caller(request), row, getattr(row, "visible_chain", [row]))

    def links(self, request: HttpRequest, row: MemoryRecord) -> Mapping[str, Sequence[Link]]:
        return links_of(admin_caller(request), row) | {gettext("Bulk actions"): batch_links(admin_caller(request), row)}

    @admin.display(description=gettext_lazy("memory"))
    def fact(self, record: MemoryRecord) -> SafeString:
        return stacked(Truncator(show_invisible(record.content)).chars(MAX_FACT), entity_names(record.entity_urns))

    # Not `author`: a column of the table has this name.
    @admin.display(description=gettext_lazy("owner"), ordering="created_by")
    def owner(self, record: MemoryRecord) -> SafeString:
        return person(record.created_by, getattr(record, "person_name", None))

    @admin.display(description=gettext_lazy("readers"), ordering="visibility")
    def readers(self, record: MemoryRecord) -> str:
        if record.visibility == Visibility.PERSONA:
            return gettext("Persona %(persona)s") % {"persona": record.persona}
        return record.get_visibility_display()

    @admin.display(description=gettext_lazy("status"), ordering="status")
    def badge(self, record: MemoryRecord) -> SafeString:
        return badge(record.status, record.get_status_display().lower())

    @admin.display(description=gettext_lazy("captured"), ordering="created_at")
    def captured(self, record: MemoryRecord) -> str:
        return age(record.created_at)

    @admin.display(description=gettext_lazy("correction chain"))
    def chain(self, record: MemoryRecord) -> SafeString:
        return chain_list(getattr(record, "visible_chain", []), record.pk)

    @admin.display(description=gettext_lazy("reported wrong"))
    def reported(self, record: MemoryRecord) -> str:
        return str(getattr(record, "reports_open", 0) or "–")

    @admin.display(description=gettext_lazy("reported by agents"))
    def agent_reports(self, record: MemoryRecord) -> SafeString:
        return report_list(getattr(record, "visible_reports", None))


def _open_reports() -> Subquery:
    """Return the number of open reports as wrong or outdated of a row, or NULL if there are none."""
    counts = queries.open_reports().filter(record=OuterRef("pk")).order_by().values("record")
    return Subquery(counts.annotate(count=Count("pk")).values("count"))


def report_list(reports: Reports | None) -> SafeString:
    """Return how often a memory was reported as used, and the reports as wrong or outdated."""
    if reports is None or not (reports.used or reports.doubts):
        return SafeString("–")
    counts = gettext("used %(used)s, wrong %(wrong)s, outdated %(outdated)s") % {
        "used": number_format(reports.used),
        "wrong": number_format(reports.wrong),
        "outdated": number_format(reports.outdated),
    }
    rows = [(one.get_verdict_display(), one.by, moment(one.at), show_invisible(one.note)) for one in reports.doubts]
    return format_html("{}<ul>{}</ul>", counts, format_html_join("", "<li>{}: {}, {} <q>{}</q></li>", rows))


def chain_list(links: Sequence[MemoryRecord], current: Any) -> SafeString:
    """Return the memories of a correction chain, oldest first, each with what changed in the text."""
    if len(links) < 2:
        return SafeString("–")
    rows = [
        (
            url_for("memory", link.pk.hex),
            show_invisible(link.content),
            link.get_status_display().lower(),
            gettext("this one") if link.pk == current else "",
        )
        for link in links
    ]
    return format_html("<ol>{}</ol>", format_html_join("", '<li><a href="{}">{}</a> ({}) <b>{}</b></li>', rows))


def batch_links(caller: Caller, record: MemoryRecord) -> list[Link]:
    rows = Batch.objects.filter(unit_ids__contains=[record.pk])
    rows = rows if caller.is_admin else rows.filter(created_by=caller.email)
    # Without the ids of the rows, of which a batch has thousands: only their number is shown.
    batches = rows.order_by("-created_at").values_list("pk", "act", "unit_ids__len", "created_at")[:BATCHES_SHOWN]
    return [Link(f"{act} × {count}", url_for("batch", pk.hex), moment(at)) for pk, act, count, at in batches]


@admin.register(StaleMemory)
class StaleMemoryAdmin(MemoryRecordAdmin):
    """Stale memories that the user may decide about, longest stale first."""

    list_display = ["fact", "stale_reason", "waits", "owner", "last_verified_at"]
    more_columns = ()
    list_filter = ["category", "confidence", PersonaFilter, EntityFilter, AuthorFilter]
    date_hierarchy = "stale_at"
    ordering = ["stale_at"]
    actions = [AdminAction(name).for_menu() for name in ("verify", "correct", "forget", "share")]
    presets = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[MemoryRecord]:
        rows = with_name(queries.reviewable_stale(admin_caller(request)).order_by(), "created_by")
        found: QuerySet[MemoryRecord] = rows.annotate(**queries.HAS_REPORTS)
        return found

    def back_to(self, request: HttpRequest) -> str:
        # A decided memory is no longer in this list, so its page here is gone.
        return (
            self.list_address()
            if request.resolver_match and "object_id" in request.resolver_match.kwargs
            else (super().back_to(request))
        )

    @admin.display(description=gettext_lazy("stale since"), ordering="stale_at")
    def waits(self, record: MemoryRecord) -> str:
        return age(record.stale_at)


@admin.register(Correction)
class CorrectionAdmin(MemoryRecordAdmin):
    """Memories that superseded another memory, with the text of that memory if the user may read it."""

    list_display = ["fact", "before", "badge", "owner", "captured"]
    more_columns = ()
    list_filter = ["status", "category", PersonaFilter, EntityFilter, AuthorFilter]
    actions = [AdminAction(name).for_menu() for name in ("forget", "correct", "restore")]
    date_hierarchy = None  # type: ignore[assignment]  # no index finds the oldest correction
    presets = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[MemoryRecord]:
        caller = admin_caller(request)
        earlier = MemoryRecord.objects.visible_to(caller).filter(pk=OuterRef("supersedes_id"))
        rows = with_name(queries.corrections(caller), "created_by")
        with_texts: QuerySet[MemoryRecord] = rows.annotate(
            text_before=Subquery(earlier.values("content")[:1]), **queries.HAS_REPORTS
        )
        return with_texts

    @admin.display(description=gettext_lazy("replaces"))
    def before(self, record: MemoryRecord) -> str:
        text = show_invisible(getattr(record, "text_before", None) or gettext("you may not read it"))
        return text if len(text) <= 80 else f"{text[:79]}…"
