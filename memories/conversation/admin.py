"""Admin pages of conversations: turns and long-term memories, decisions, cached answers, merge proposals."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from foundation.links import url_for
from foundation.operations.display import show_invisible
from memories.admin.actions import AdminAction
from memories.admin.base import AdminsOnly, admin_caller, moment
from memories.admin.base import age as age_of
from memories.conversation.models import CachedAnswer, MergeProposal, UserDecision
from memories.conversation.operations import TIERS
from memories.models import ConversationMemory

MAX_TEXT = 160


@admin.register(ConversationMemory)
class ConversationMemoryAdmin(AdminsOnly):
    list_display = [
        "text",
        "tier",
        "conversation_id",
        "created_by",
        "importance",
        "uses",
        "enrichment_status",
        "expiry",
    ]
    list_filter = ["tier", "status", "enrichment_status", "dimension", "role"]
    search_fields = ["content", "conversation_id", "created_by"]
    date_hierarchy = "created_at"
    ordering = ["-created_at"]
    fields = [
        "page", "content", "summary", "tier", "status", "role", "author", "conversation_id", "thread_position",
        "derived_from", "importance", "access_count", "enrichment_status", "tags", "dimension", "created_by",
        "created_at", "expires_at", "purge_after",
    ]  # fmt: skip
    readonly_fields = ["page", "derived_from"]
    actions = [AdminAction("forget").for_menu(), AdminAction("restore").for_menu()]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ConversationMemory]:
        rows = ConversationMemory.objects.visible_to(admin_caller(request)).filter(tier__in=TIERS)
        return rows.defer("search")  # type: ignore[return-value]  # rows of the proxy model

    @admin.display(description=gettext_lazy("text"))
    def text(self, record: ConversationMemory) -> str:
        return show_invisible(record.spoken[:MAX_TEXT])

    @admin.display(description=gettext_lazy("uses"), ordering="access_count")
    def uses(self, record: ConversationMemory) -> int:
        return record.access_count

    @admin.display(description=gettext_lazy("expires"), ordering="expires_at")
    def expiry(self, record: ConversationMemory) -> str:
        return moment(record.expires_at) if record.expires_at else gettext("never")

    @admin.display(description=gettext_lazy("page"))
    def page(self, record: ConversationMemory) -> SafeString:
        return format_html('<a href="{}">{}</a>', url_for("memory", record.pk.hex), gettext("Open"))


@admin.register(UserDecision)
class UserDecisionAdmin(AdminsOnly):
    list_display = ["key", "value", "created_by", "updated_at", "expires_at"]
    search_fields = ["key", "value", "created_by"]
    date_hierarchy = "updated_at"


@admin.register(CachedAnswer)
class CachedAnswerAdmin(AdminsOnly):
    list_display = ["query", "created_by", "hits", "age", "expires_at"]
    search_fields = ["query", "response", "created_by"]
    date_hierarchy = "created_at"
    exclude = ["vector"]

    @admin.display(description=gettext_lazy("stored"), ordering="created_at")
    def age(self, entry: CachedAnswer) -> str:
        return age_of(entry.created_at)


@admin.register(MergeProposal)
class MergeProposalAdmin(AdminsOnly):
    list_display = ["text", "cosine", "state", "created_at", "decided_at"]
    list_filter = ["state"]
    date_hierarchy = "created_at"
