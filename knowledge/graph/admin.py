"""Graphs in the admin: their entities with what is said of them; changed through tools, never here."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from knowledge.graph.models import Entity, Graph, Observation, Reflection
from memories.admin.lists import AdminsOnly
from memories.contract.text import visible


@admin.register(Graph)
class GraphAdmin(AdminsOnly):
    list_display = ["__str__", "visibility", "entity_count", "changed_at"]
    list_filter = ["visibility", "persona"]
    search_fields = ["created_by", "persona"]
    ordering = ["-changed_at"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Graph]:
        living = Q(entities__deleted_at=None, entities__is_placeholder=False)
        return Graph.objects.annotate(living=Count("entities", filter=living))

    @admin.display(description="entities")
    def entity_count(self, graph: Graph) -> int:
        return int(graph.living)  # type: ignore[attr-defined]  # annotated above


@admin.register(Entity)
class EntityAdmin(AdminsOnly):
    list_display = ["name", "entity_type", "status", "graph", "access_count", "last_access", "updated_at"]
    list_filter = ["entity_type", "status"]
    search_fields = ["name", "graph__created_by"]
    list_select_related = ["graph"]
    ordering = ["-updated_at"]
    fields = ["name", "entity_type", "status", "urn", "graph", "texts", "created_at", "updated_at", "deleted_at"]
    readonly_fields = ["texts"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Entity]:
        return Entity.objects.filter(is_placeholder=False).defer("folded", "grams")

    @admin.display(description="observations")
    def texts(self, entity: Entity) -> SafeString:
        rows = Observation.objects.filter(entity=entity, ended_at=None).order_by("number").values_list("text")
        return format_html_join("", "<p>{}</p>", ((visible(text),) for (text,) in rows[:200]))


@admin.register(Reflection)
class ReflectionAdmin(AdminsOnly):
    list_display = ["__str__", "target_type", "author", "mood", "graph", "created_at"]
    list_filter = ["target_type", "author", "mood"]
    search_fields = ["content"]
    list_select_related = ["graph"]
    exclude = ["vector"]
