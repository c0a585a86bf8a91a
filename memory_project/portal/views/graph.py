"""Graph page: an entity and its neighbors as a picture and a list, at present or at an earlier time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from knowledge.catalog import neighbors
from knowledge.catalog.entity_view import short_name
from knowledge.context import timeline
from knowledge.graph import drawing, graphs, queries
from knowledge.graph.drawing import Neighborhood
from knowledge.graph.models import Entity, Graph
from knowledge.graph.responses import relation_of
from knowledge.graph.search import sql
from memories.contract.fields import UNSTORABLE
from memories.identity.caller import Caller
from memories.identity.permissions import caller_from_request
from memory_project.portal.graph_layout import Layout, rings

MAX_NAME = 18  # maximum number of characters shown of a node's name
MAX_LABELS = 80  # maximum number of edges, lineage included, in a picture that shows the types of relations
MAX_CATALOG = 12  # maximum number of entities whose lineage neighbors are drawn, and of neighbors for each entity
MAX_MATCHES = 50  # maximum number of search results
RADIUS = 18
MAX_DAYS = 36_500  # maximum number of days that the picture can go back


WHO_READS = {
    "private": "Only its owner",
    "persona": "Its persona",
    "everyone": "Everyone with an account",
}


@dataclass(frozen=True)
class Choice:
    """The parameters of the page, which are read from its address."""

    graph: Graph
    number: int | None
    expanded: list[int]
    days_ago: int
    q: str

    @classmethod
    def of(cls, open_graphs: list[Graph], params: QueryDict) -> Choice:
        graph = next((graph for graph in open_graphs if graph.pk.hex == params.get("graph", "")), open_graphs[0])
        expanded = [_number(text) or 0 for text in params.get("expanded", "")[:4_000].split(",")]
        q = UNSTORABLE.sub("", params.get("q", "")).strip()[:500]
        days_ago = min(_number(params.get("ago", "")) or 0, MAX_DAYS)
        return cls(graph, _number(params.get("node", "")), [number for number in expanded if number], days_ago, q)

    @property
    def as_of(self) -> datetime | None:
        return timezone.now() - timedelta(days=self.days_ago) if self.days_ago else None

    def address(self, **changes: Any) -> str:
        values = {"graph": self.graph.pk.hex, "node": self.number or "", "ago": self.days_ago or "", **changes}
        expanded = values.pop("expanded", self.expanded)
        values["expanded"] = ",".join(map(str, expanded))
        return f"{reverse('graph')}?{urlencode({name: value for name, value in values.items() if value})}"


@require_safe
@login_required
def graph(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    open_graphs = drawing.graphs_of(caller)
    if not open_graphs:
        return render(request, "graph/page.html", {"graphs": []})
    choice = Choice.of(open_graphs, request.GET)
    part = drawing.neighborhood_of(choice.graph, choice.number, choice.expanded, choice.as_of)
    urns = {entity.urn for entity in part.entities if entity.urn}
    lineage = {
        urn: [other for other in neighbors.neighbors_of([urn]) if other not in urns][:MAX_CATALOG]
        for urn in sorted(urns)[:MAX_CATALOG]
    }
    context: dict[str, Any] = {
        "graphs": [(entry, choice.address(graph=entry.pk.hex, node="", expanded=[])) for entry in open_graphs],
        "choice": choice,
        "part": part,
        "oldest": max((timezone.now() - choice.graph.created_at).days, 1),
        "picture": _picture(caller, choice, part, lineage),
        "node": _node(choice, part),
        "may_share": bool(choice.graph.created_by) and caller.can_edit_for(choice.graph.created_by),
        "visibilities": WHO_READS,
        "entries": [(entity, choice.address(node=entity.number)) for entity in part.entities],
    }
    if choice.q:
        matches = sql.entities(choice.graph, holding=choice.q, limit=MAX_MATCHES)
        context["matches"] = [(entity, choice.address(node=entity.number, expanded=[])) for entity in matches]
    return render(request, "graph/page.html", context)


@require_POST
@login_required
def share_graph(request: HttpRequest, graph_id: UUID) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    graphs.share(caller=caller, graph_id=graph_id, visibility=request.POST.get("visibility", ""))
    messages.success(request, "Sharing settings saved.")
    return redirect(f"{reverse('graph')}?graph={graph_id.hex}")


def _node(choice: Choice, part: Neighborhood) -> dict[str, Any] | None:
    if part.center is None:
        return None
    (node,) = queries.nodes_of([part.center], choice.as_of)
    by_pk = {entity.pk: entity for entity in part.entities}
    relations = [
        (relation_of(part.center, relation), choice.address(node=by_pk[end].number, expanded=[]))
        for relation in queries.relations_of([part.center], choice.as_of)
        for end in [relation.target_id if relation.source_id == part.center.pk else relation.source_id]
        if end in by_pk
    ]
    return {"entity": node.entity, "observations": node.observations, "relations": relations}


def _picture(caller: Caller, choice: Choice, part: Neighborhood, lineage: dict[str, list[str]]) -> dict[str, Any]:
    """Return the nodes and edges of the SVG.

    If an entity of the graph is linked to the catalog, its lineage neighbors in the catalog are drawn as nodes, too.
    """
    catalog_urns = list(dict.fromkeys(urn for urns in lineage.values() for urn in urns))
    edges = [(relation.source_id.hex, relation.target_id.hex, relation.relation_type) for relation in part.relations]
    edges += [(entity.pk.hex, urn, "") for entity in part.entities for urn in lineage.get(entity.urn, [])]
    center = part.center.pk.hex if part.center else ""
    layout = rings(
        [*(e.pk.hex for e in part.entities), *catalog_urns], [(start, end) for start, end, _ in edges], center
    )
    counts = timeline.memory_counts(caller, [*(e.urn for e in part.entities if e.urn), *catalog_urns])
    nodes = []
    for entity in part.entities:
        kind = "center" if entity == part.center else "open" if entity.number in choice.expanded else ""
        node = _svg_node(
            layout, entity.pk.hex, entity.name, _target(choice, entity, kind), counts.get(entity.urn, (0, 0))
        )
        nodes.append(node | {"kind": kind, "type": entity.entity_type})
    for urn in catalog_urns:
        target = f"{reverse('entity')}?{urlencode({'urn': urn})}"
        name = ".".join(short_name(urn).split(".")[-2:])
        node = _svg_node(layout, urn, name, target, counts.get(urn, (0, 0)))
        nodes.append(node | {"kind": "catalog", "type": "catalog"})
    return {
        "nodes": nodes,
        "edges": [_svg_edge(layout, *edge, label=len(edges) <= MAX_LABELS) for edge in edges],
        "box": " ".join(f"{number:.0f}" for number in layout.box),
    }


def _target(choice: Choice, entity: Entity, kind: str) -> str:
    """Return the address that a click on a node leads to.

    The first click on a node expands it, and the second click makes it the center. In the overview, which has no
    center, the first click makes the node the center.
    """
    if kind or not choice.number:
        return choice.address(node=entity.number, expanded=[])
    return choice.address(expanded=sorted({*choice.expanded, entity.number}))


def _svg_node(layout: Layout, key: str, name: str, target: str, counts: tuple[int, int]) -> dict[str, Any]:
    x, y = layout.points[key]
    total, stale = counts
    label = f"{total} memor{'y' if total == 1 else 'ies'}" + (f", {stale} stale" if stale else "") if total else ""
    short = name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"
    return {
        "name": name, "short": short, "href": target, "x": x, "y": y, "text_y": y + RADIUS + 14, "count": total,
        "badge_x": x + 14, "badge_y": y - 14, "badge_text_y": y - 10, "label": label, "has_stale": bool(stale),
    }  # fmt: skip


def _svg_edge(layout: Layout, start: str, end: str, kind: str, *, label: bool) -> dict[str, Any]:
    (x1, y1), (x2, y2) = layout.points[start], layout.points[end]
    return {
        "x1": x1, "y1": y1, "x2": x2, "y2": y2, "label": kind if label else "", "is_lineage": not kind,
        "label_x": round((x1 + 2 * x2) / 3, 1), "label_y": round((y1 + 2 * y2) / 3, 1) - 4,
    }  # fmt: skip


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None
