"""Graph page: clusters, entities and their relations as a picture and a list, at present or at an earlier time."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from foundation.operations.fields import UNSTORABLE
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from knowledge.catalog import neighbors
from knowledge.graph import drawing, graphs, queries
from knowledge.graph.drawing import Contents, Structure
from knowledge.graph.models import Entity, Graph, Relation
from knowledge.graph.search import graph_reading
from knowledge.news import timeline
from memory_project.portal import graph_scene
from memory_project.portal.graph_picture import Picture, add_scene
from memory_project.portal.labels import READERS
from memory_project.portal.search.matching import SAME, score

MAX_CATALOG = 12  # maximum number of lineage neighbors in the catalog that are drawn beside the chosen entity
MAX_MATCHES = 50  # maximum number of search results
MAX_OBSERVATIONS = 200  # maximum number of observations shown of an entity
MAX_RELATIONS = 100  # maximum number of relations listed of an entity
MAX_DAYS = 36_500  # maximum number of days that the picture can go back


@dataclass(frozen=True)
class Choice:
    """The parameters of the page, which are read from its address.

    `number` is the chosen entity. Without it, `cluster` and `depth` name the opened cluster: the one that contains the
    entity `cluster` at this depth.
    """

    graph: Graph
    number: int | None
    cluster: int | None
    depth: int
    expanded: list[int]
    days_ago: int
    entity_type: str
    q: str

    @classmethod
    def of(cls, open_graphs: list[Graph], params: QueryDict) -> Choice:
        graph = next((graph for graph in open_graphs if graph.pk.hex == params.get("graph", "")), open_graphs[0])
        expanded = [_number(text) or 0 for text in params.get("expanded", "")[:4_000].split(",")]
        return cls(
            graph,
            _number(params.get("node", "")),
            _number(params.get("cluster", "")),
            min(_number(params.get("depth", "")) or 0, 50),
            [number for number in expanded if number],
            min(_number(params.get("ago", "")) or 0, MAX_DAYS),
            UNSTORABLE.sub("", params.get("type", ""))[:200],
            UNSTORABLE.sub("", params.get("q", "")).strip()[:500],
        )

    @property
    def as_of(self) -> datetime | None:
        return timezone.now() - timedelta(days=self.days_ago) if self.days_ago else None

    def address(self, **changes: Any) -> str:
        values = {
            "graph": self.graph.pk.hex, "node": self.number, "cluster": self.cluster, "depth": self.depth,
            "type": self.entity_type, "ago": self.days_ago, **changes,
        }  # fmt: skip
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
    as_of = choice.as_of
    matches = _matches(choice, as_of)
    if matches and (len(matches) == 1 or score(matches[0].name, choice.q) == SAME):
        choice = replace(choice, number=matches[0].number, expanded=[])  # the search centers what it found
    contents = drawing.contents_of(choice.graph, as_of)
    shown = _surroundings(caller, choice, contents, as_of) or _clusters(caller, choice, contents, as_of)
    context: dict[str, Any] = {
        "graphs": [
            (entry, choice.address(graph=entry.pk.hex, node="", cluster="", depth="", type="", expanded=[]))
            for entry in open_graphs
        ],
        "choice": choice,
        "types": contents.counts,
        "oldest": max((timezone.now() - choice.graph.created_at).days, 1),
        "matches": [(entity, choice.address(node=entity.number, expanded=[])) for entity in matches],
        "max_loaded": drawing.MAX_LOADED if contents.is_cut else None,
        "may_share": bool(choice.graph.created_by) and caller.can_edit_for(choice.graph.created_by),
        "visibilities": READERS,
        "overview": choice.address(node="", cluster="", depth="", expanded=[]),
        **shown,
    }
    return render(request, "graph/page.html", context)


def _matches(choice: Choice, as_of: datetime | None) -> list[Entity]:
    """Return the entities that the search finds, those with the best matching names first."""
    if not choice.q:
        return []
    found = graph_reading.entities(choice.graph, holding=choice.q, as_of=as_of, limit=MAX_MATCHES)
    return sorted(found, key=lambda entity: -score(entity.name, choice.q))


def _clusters(caller: Caller, choice: Choice, contents: Contents, as_of: datetime | None) -> dict[str, Any]:
    """Return the picture of the whole graph or of an opened cluster."""
    structure = drawing.structure_of(choice.graph, contents, as_of, choice.entity_type)
    path = graph_scene.cluster_path(structure, choice.cluster, choice.depth)
    scene = graph_scene.overview(structure, path)
    found = drawing.by_number(choice.graph, scene.named, as_of)
    counts = timeline.memory_counts(caller, [entity.urn for entity in found.values() if entity.urn])
    picture = Picture()
    add_scene(picture, scene, found, counts, choice.address)
    if scene.groups:
        picture.add_weights(scene)
    else:
        numbers = {entity.pk: number for number, entity in found.items()}
        picture.add_relations(drawing.relations_among(list(found.values()), as_of), numbers)
    larger = choice.address(depth=len(path) - 1, expanded=[]) if len(path) > 1 else ""
    return {"picture": picture.drawn(), "depth": len(path), "larger": larger, "has_groups": bool(scene.groups)}


def _surroundings(caller: Caller, choice: Choice, contents: Contents, as_of: datetime | None) -> dict[str, Any]:
    """Return the picture of the chosen entity with its neighbors of the chosen type, and what is known of it.

    Returns {} if no entity is chosen, or if it isn't in the graph.
    """
    number = choice.number
    if number is None:
        return {}
    structure = drawing.structure_of(choice.graph, contents, as_of)
    if number not in structure.paths:
        structure = drawing.structure_around(choice.graph, number, as_of)
    of_type = {other for other, kind in contents.types.items() if kind == choice.entity_type}
    around = drawing.around(structure, number, choice.expanded, of_type if choice.entity_type else None)
    found = drawing.by_number(choice.graph, around.numbers, as_of)
    center = found.get(number)
    if center is None:
        return {}
    # Neighbors of only the chosen entity, because they take a place each.
    urns = {entity.urn for entity in found.values() if entity.urn}
    near = neighbors.neighbors_of([center.urn]) if center.urn else []
    catalog = [urn for urn in near if urn not in urns][:MAX_CATALOG]
    counts = timeline.memory_counts(caller, [*urns, *catalog])
    picture = Picture(center=center.number)
    for number in around.numbers:
        if entity := found.get(number):
            style = "open" if number in choice.expanded else ""
            if number == center.number:
                style = "center"
            picture.add_entity(entity, _target(choice, number, style), counts.get(entity.urn, (0, 0)), style)
    for urn in catalog:
        picture.add_catalog_entity(urn, counts.get(urn, (0, 0)))
    relations = drawing.relations_among(list(found.values()), as_of)
    picture.add_relations(relations, {entity.pk: number for number, entity in found.items()})
    picture.add_lineage(center.number, catalog)
    return {
        "picture": picture.drawn(),
        "center": center,
        "around": around,
        "node": _node(choice, center, relations, {entity.pk: entity for entity in found.values()}, as_of),
        "in_cluster": _cluster_of(choice, structure, center),
    }


def _cluster_of(choice: Choice, structure: Structure, center: Entity) -> str:
    """Return the address of the cluster that contains the entity, or "" if the graph is drawn without clusters."""
    depth = len(structure.paths.get(center.number, ())) - 1
    if depth < 1 or len(structure.paths) <= drawing.MAX_DRAWN:
        return ""
    return choice.address(node="", cluster=center.number, depth=depth, expanded=[])


def _node(
    choice: Choice, center: Entity, relations: list[Relation], by_pk: dict[UUID, Entity], as_of: datetime | None
) -> dict[str, Any]:
    (node,) = queries.nodes_of([center], as_of)
    from_here: list[tuple[str, Entity, str]] = []
    to_here: list[tuple[str, Entity, str]] = []
    for relation in relations:
        if center.pk in (relation.source_id, relation.target_id):
            is_outgoing = relation.source_id == center.pk
            other = by_pk[relation.target_id if is_outgoing else relation.source_id]
            entry = (relation.relation_type, other, choice.address(node=other.number, expanded=[]))
            (from_here if is_outgoing else to_here).append(entry)
    return {
        "entity": center,
        "observations": node.observations[:MAX_OBSERVATIONS],
        "observations_total": len(node.observations),
        "from_here": from_here[:MAX_RELATIONS],
        "to_here": to_here[:MAX_RELATIONS],
    }


def _target(choice: Choice, number: int, style: str) -> str:
    """Return the address that a click on a neighbor leads to: the first expands it, the second makes it the center."""
    if style:
        return choice.address(node=number, expanded=[])
    return choice.address(expanded=sorted({*choice.expanded, number}))


@require_POST
@login_required
def share_graph(request: HttpRequest, graph_id: UUID) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    graphs.share(caller, graph_id=graph_id, visibility=request.POST.get("visibility", ""))
    messages.success(request, gettext("Readers saved."))
    return redirect(f"{reverse('graph')}?graph={graph_id.hex}")


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None
