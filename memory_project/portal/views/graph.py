"""Graph: an entity with what hangs on it, drawn and listed; expanded by click and key, now or as it was."""

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

from knowledge.catalog import neighbours
from knowledge.catalog.entity_view import short_name
from knowledge.context import timeline
from knowledge.graph import drawing, graphs, queries
from knowledge.graph.drawing import Neighbourhood
from knowledge.graph.models import Entity, Graph
from knowledge.graph.responses import relation_of
from knowledge.graph.search import sql
from memories.contract.fields import UNSTORABLE
from memories.identity.caller import Caller
from memories.identity.permissions import caller_from_request
from memory_project.portal.graph_layout import Layout, rings

MAX_NAME = 18  # characters of a name in the picture
MAX_LABELS = 80  # relations whose type is written on them
MAX_CATALOG = 12  # catalog entities around those that stand for one
MAX_MATCHES = 50
RADIUS = 18
MAX_DAYS = 36_500  # that one looks back


WHO_READS = {
    "private": "Only its owner",
    "persona": "Its persona",
    "everyone": "Everyone here",
}


@dataclass(frozen=True)
class Choice:
    """What the address asks for."""

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
        return cls(graph, _number(params.get("node", "")), [n for n in expanded if n], days_ago, q)

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
    part = drawing.around(choice.graph, choice.number, choice.expanded, choice.as_of)
    urns = {entity.urn for entity in part.entities if entity.urn}
    lineage = {
        urn: [near for near in neighbours.neighbours_of([urn]) if near not in urns][:MAX_CATALOG]
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
    messages.success(request, "Kept who may look at it.")
    return redirect(f"{reverse('graph')}?graph={graph_id.hex}")


def _node(choice: Choice, part: Neighbourhood) -> dict[str, Any] | None:
    """The entity in the middle: what is said of it, and what it is related to."""
    if part.centre is None:
        return None
    (node,) = queries.nodes_of([part.centre], choice.as_of)
    by_pk = {entity.pk: entity for entity in part.entities}
    relations = [
        (relation_of(part.centre, relation), choice.address(node=by_pk[end].number, expanded=[]))
        for relation in queries.relations_of([part.centre], choice.as_of)
        for end in [relation.target_id if relation.source_id == part.centre.pk else relation.source_id]
        if end in by_pk
    ]
    return {"entity": node.entity, "observations": node.observations, "relations": relations}


def _picture(caller: Caller, choice: Choice, part: Neighbourhood, lineage: dict[str, list[str]]) -> dict[str, Any]:
    """Nodes and edges of the SVG. Catalog entities hang on those that stand for one by lineage."""
    near = list(dict.fromkeys(urn for urns in lineage.values() for urn in urns))
    edges = [(relation.source_id.hex, relation.target_id.hex, relation.relation_type) for relation in part.relations]
    edges += [(entity.pk.hex, urn, "") for entity in part.entities for urn in lineage.get(entity.urn, [])]
    centre = part.centre.pk.hex if part.centre else ""
    layout = rings([*(e.pk.hex for e in part.entities), *near], [(start, end) for start, end, _ in edges], centre)
    counts = timeline.memory_counts(caller, [*(e.urn for e in part.entities if e.urn), *near])
    nodes = []
    for entity in part.entities:
        kind = "centre" if entity == part.centre else "open" if entity.number in choice.expanded else ""
        node = _drawn(layout, entity.pk.hex, entity.name, _target(choice, entity, kind), counts.get(entity.urn, (0, 0)))
        nodes.append(node | {"kind": kind, "type": entity.entity_type})
    for urn in near:
        target = f"{reverse('entity')}?{urlencode({'urn': urn})}"
        name = ".".join(short_name(urn).split(".")[-2:])
        node = _drawn(layout, urn, name, target, counts.get(urn, (0, 0)))
        nodes.append(node | {"kind": "catalog", "type": "catalog"})
    return {
        "nodes": nodes,
        "edges": [_edge(layout, *edge, label=len(edges) <= MAX_LABELS) for edge in edges],
        "box": " ".join(f"{number:.0f}" for number in layout.box),
    }


def _target(choice: Choice, entity: Entity, kind: str) -> str:
    """Where a node leads: it expands, one that is expanded moves to the middle, and one of the overview too."""
    if kind or not choice.number:
        return choice.address(node=entity.number, expanded=[])
    return choice.address(expanded=sorted({*choice.expanded, entity.number}))


def _drawn(layout: Layout, key: str, name: str, target: str, counts: tuple[int, int]) -> dict[str, Any]:
    x, y = layout.points[key]
    total, stale = counts
    says = f"{total} memor{'y' if total == 1 else 'ies'}" + (f", {stale} stale" if stale else "") if total else ""
    short = name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"
    return {
        "name": name, "short": short, "href": target, "x": x, "y": y, "text_y": y + RADIUS + 14, "count": total,
        "badge_x": x + 14, "badge_y": y - 14, "badge_text_y": y - 10, "says": says, "has_stale": bool(stale),
    }  # fmt: skip


def _edge(layout: Layout, start: str, end: str, kind: str, *, label: bool) -> dict[str, Any]:
    (x1, y1), (x2, y2) = layout.points[start], layout.points[end]
    return {
        "x1": x1, "y1": y1, "x2": x2, "y2": y2, "label": kind if label else "", "is_lineage": not kind,
        "label_x": round((x1 + 2 * x2) / 3, 1), "label_y": round((y1 + 2 * y2) / 3, 1) - 4,
    }  # fmt: skip


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None
