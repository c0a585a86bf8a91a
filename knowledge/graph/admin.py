"""Admin pages of knowledge graphs. All rows are read-only here, because tools change them."""

from __future__ import annotations

from django.contrib import admin, messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_lazy, ngettext

from knowledge.graph.maintenance import proposals
from knowledge.graph.models import Entity, Graph, Observation, Reflection, UpkeepProposal, UpkeepState
from memories.admin.actions import AdminAction
from memories.admin.base import AdminsOnly, admin_caller


@admin.register(Graph)
class GraphAdmin(AdminsOnly):
    list_display = ["__str__", "visibility", "entity_count", "changed_at"]
    list_filter = ["visibility", "persona"]
    search_fields = ["created_by", "persona"]
    ordering = ["-changed_at"]
    actions = ["look"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Graph]:
        living = Q(entities__deleted_at=None, entities__is_placeholder=False)
        return Graph.objects.annotate(living=Count("entities", filter=living))

    @admin.display(description=gettext_lazy("entities"))
    def entity_count(self, graph: Graph) -> int:
        return int(graph.living)  # type: ignore[attr-defined]  # annotated above

    @admin.action(description=gettext_lazy("Look for duplicates and splits"))
    def look(self, request: HttpRequest, rows: QuerySet[Graph]) -> None:
        caller = admin_caller(request)
        counts = [proposals.check_graph(caller, graph=graph) for graph in rows]
        open_count = UpkeepProposal.objects.filter(entity__graph__in=rows, state=UpkeepState.OPEN).count()
        new = sum(count or 0 for count in counts)
        text = ngettext("%(n)s new proposal.", "%(n)s new proposals.", new) % {"n": new}
        messages.info(request, text)
        text = ngettext(
            "%(n)s is open, under Proposed maintenance.", "%(n)s are open, under Proposed maintenance.", open_count
        )
        messages.info(request, text % {"n": open_count})
        if None in counts:
            messages.info(request, gettext("A worker checks the large graphs later."))


class ObservationInline(admin.TabularInline[Observation, Entity]):
    model = Observation
    fields = readonly_fields = ("number", "text", "kind", "similarity_flag", "created_at", "superseded_at", "ended_at")
    extra = 0
    can_delete = False
    verbose_name_plural = gettext_lazy("observations")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Observation]:
        return Observation.objects.defer("folded", "grams")

    def has_view_permission(self, request: HttpRequest, obj: Entity | None = None) -> bool:
        return bool(request.user.is_superuser)

    def has_add_permission(self, request: HttpRequest, obj: Entity | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Entity | None = None) -> bool:
        return False


@admin.register(Entity)
class EntityAdmin(AdminsOnly):
    list_display = ["name", "entity_type", "status", "graph", "access_count", "last_access", "updated_at"]
    list_filter = ["entity_type", "status"]
    search_fields = ["name", "graph__created_by"]
    list_select_related = ["graph"]
    ordering = ["-updated_at"]
    fields = ["name", "entity_type", "status", "urn", "graph", "created_at", "updated_at", "deleted_at"]
    inlines = [ObservationInline]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Entity]:
        return Entity.objects.filter(is_placeholder=False).defer("folded", "grams")


@admin.register(UpkeepProposal)
class UpkeepProposalAdmin(AdminsOnly):
    list_display = ["__str__", "kind", "likeness", "graph", "state", "created_at", "decided_by"]
    list_filter = ["state", "kind"]
    list_select_related = ("entity__graph", "ends", "stays")
    search_fields = ["entity__name", "entity__graph__created_by"]
    date_hierarchy = "created_at"
    actions = [AdminAction(name).for_menu() for name in ("accept_upkeep", "dismiss_upkeep", "reopen_upkeep")]
    presets = ((gettext_lazy("Open"), "state__exact=open"),)

    @admin.display(description=gettext_lazy("score"), ordering="score")
    def likeness(self, proposal: UpkeepProposal) -> str:
        return f"{proposal.score:.2f}"

    @admin.display(description=gettext_lazy("graph"))
    def graph(self, proposal: UpkeepProposal) -> str:
        return str(proposal.entity.graph)


@admin.register(Reflection)
class ReflectionAdmin(AdminsOnly):
    list_display = ["__str__", "target_type", "created_by", "author", "mood", "graph", "created_at"]
    list_filter = ["target_type", "author", "mood"]
    search_fields = ["content"]
    list_select_related = ["graph"]
    exclude = ["vector"]
