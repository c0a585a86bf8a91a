"""The SVG of the graph page: positions, texts and addresses of nodes, clusters and edges."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.urls import reverse
from django.utils.http import urlencode
from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext

from foundation.operations.display import show_invisible
from knowledge.catalog.entity_view import short_name
from knowledge.graph.models import Entity, Relation
from memory_project.portal.graph_layout import Box, spread_out, view_box
from memory_project.portal.graph_scene import Scene, SceneGroup

MAX_NAME = 24  # maximum number of characters shown of a name
MAX_LABELS = 24  # maximum number of edges in a picture that shows the types of all relations
MAX_HEAVIEST = 3  # number of edges that every cluster keeps, if it has so many
MAX_CENTER_LABELS = 40  # maximum number of edges at the center whose types are shown
MAX_WHOLE_NAME = 200  # of a name in the list and in tooltips; names have up to 5,000 characters
RADIUS = 16
LETTER = 7.4  # width of a letter of a name, a little more than on average
LINE = 15  # height of a line of text
GAP = 12  # empty space between two names

Key = Any  # a number of an entity, the path of a cluster, or the URN of a catalog entity


@dataclass
class Picture:
    """Nodes in the order of the list beside the picture. `links` are edges: two keys, weight and text."""

    nodes: dict[Key, dict[str, Any]] = field(default_factory=dict)
    links: list[tuple[Key, Key, int, str, bool]] = field(default_factory=list)
    center: Key | None = None

    def drawn(self) -> dict[str, Any]:
        keys = list(self.nodes)
        place = {key: index for index, key in enumerate(keys)}
        boxes = [self.nodes[key]["box"] for key in keys]
        points = spread_out(boxes, [(place[start], place[end]) for start, end, *_ in self.links])
        for key, (x, y), box in zip(keys, points, boxes, strict=True):
            self.nodes[key] |= _positions(self.nodes[key], x, y, box)
        return {
            "nodes": list(self.nodes.values()),
            "edges": [self._edge(*link) for link in self.links],
            "box": " ".join(f"{number:.0f}" for number in view_box(points, boxes)) if keys else "0 0 1 1",
            "legend": self._legend(),
        }

    def _legend(self) -> list[tuple[str, str]]:
        """Return the marks that the picture uses, each with its style and its meaning."""
        nodes = self.nodes.values()
        marks = [
            ("count", gettext("number of memories about it"), any(node["count"] for node in nodes)),
            ("has-stale", gettext("a memory about it is stale"), any(node["has_stale"] for node in nodes)),
            ("group", gettext("cluster of entities"), any(node["style"] == "group" for node in nodes)),
            ("outside", gettext("outside of this cluster"), any("outside" in node["style"] for node in nodes)),
            (
                "catalog",
                gettext("neighbor in the catalog’s lineage"),
                any(node["style"] == "catalog" for node in nodes),
            ),
        ]
        return [(style, meaning) for style, meaning, is_used in marks if is_used]

    def add_entity(self, entity: Entity, href: str, counts: tuple[int, int], style: str = "") -> None:
        self.nodes[entity.number] = _node(entity.name, href, counts, style) | {"type": entity.entity_type}

    def add_group(self, group: SceneGroup, leaders: Sequence[Entity], href: str) -> None:
        """Add a cluster, named after its entity with the most relations."""
        count = len(group.numbers)
        first = leaders[0].name if leaders else gettext("without a name")
        node = _node(first, href, (0, 0), "group outside" if group.is_outside else "group")
        radius = round(RADIUS + 4 * math.log2(count), 1)
        size = ngettext("%(n)s entity", "%(n)s entities", count) % {"n": count}
        names = ", ".join(_shortened(entity.name) for entity in leaders[1:])
        node |= {
            "radius": radius,
            "size": size,
            "others": names,
            "box": Box(max(node["box"].width, 2 * radius + GAP), 2 * radius + 2 * LINE + GAP),
        }
        self.nodes[group.path] = node

    def add_catalog_entity(self, urn: str, counts: tuple[int, int]) -> None:
        name = ".".join(short_name(urn).split(".")[-2:])
        href = f"{reverse('entity')}?{urlencode({'urn': urn})}"
        self.nodes[urn] = _node(name, href, counts, "catalog") | {"type": gettext("catalog")}

    def add_relations(self, relations: Iterable[Relation], numbers: Mapping[Any, int]) -> None:
        """Add relations between drawn entities. Several relations of two entities are one edge."""
        types: dict[tuple[int, int], list[str]] = {}
        for relation in relations:
            start = numbers.get(relation.source_id)
            end = numbers.get(relation.target_id)
            if start is not None and end is not None and start != end:
                types.setdefault((start, end), []).append(relation.relation_type)
        at_center = sum(self.center in pair for pair in types)
        for (start, end), kinds in types.items():
            is_labelled = len(types) <= MAX_LABELS or (self.center in (start, end) and at_center <= MAX_CENTER_LABELS)
            self.links.append((start, end, len(kinds), ", ".join(dict.fromkeys(kinds)) if is_labelled else "", False))

    def add_weights(self, scene: Scene) -> None:
        """Add the heaviest edges of each node. All edges between clusters would hide the names."""
        drawn: Counter[Key] = Counter()
        for (a, b), weight in sorted(scene.weights.items(), key=lambda item: -item[1]):  # stable
            if a in self.nodes and b in self.nodes and min(drawn[a], drawn[b]) < MAX_HEAVIEST:
                self.links.append((a, b, weight, "", False))
                drawn.update((a, b))

    def add_lineage(self, number: int, urns: Sequence[str]) -> None:
        self.links += [(number, urn, 1, "", True) for urn in urns]

    def _edge(self, start: Key, end: Key, weight: int, label: str, is_lineage: bool) -> dict[str, Any]:
        a = self.nodes[start]
        b = self.nodes[end]
        return {
            "x1": a["x"], "y1": a["y"], "x2": b["x"], "y2": b["y"], "label": _shortened(label),
            "is_lineage": is_lineage, "width": round(1.2 + min(math.log2(weight), 5), 1),
            "label_x": round((a["x"] + b["x"]) / 2, 1), "label_y": round((a["y"] + b["y"]) / 2 - 4, 1),
            "at_center": self.center is not None and self.center in (start, end),
        }  # fmt: skip


def add_scene(
    picture: Picture,
    scene: Scene,
    found: Mapping[int, Entity],
    counts: Mapping[str, tuple[int, int]],
    address: Callable[..., str],
) -> None:
    for group in scene.groups:
        leaders = [found[number] for number in group.leaders if number in found]
        if len(group.numbers) == 1 and leaders:  # a single entity outside of the cluster
            (entity,) = leaders
            href = address(node=entity.number, cluster="", depth="", expanded=[])
            picture.add_entity(entity, href, counts.get(entity.urn, (0, 0)), "outside")
            picture.nodes[group.path] = picture.nodes.pop(entity.number)
        else:
            href = address(node="", cluster=group.numbers[0], depth=len(group.path), expanded=[])
            picture.add_group(group, leaders, href)
    for number in scene.numbers:
        if number in found:
            urn = found[number].urn
            href = address(node=number, cluster="", depth="", expanded=[])
            picture.add_entity(found[number], href, counts.get(urn, (0, 0)))


def _node(name: str, href: str, counts: tuple[int, int], style: str) -> dict[str, Any]:
    total, stale = counts
    memories = ngettext("%(n)s memory", "%(n)s memories", total) % {"n": total} if total else ""
    if stale:
        memories = ngettext("%(memories)s, %(n)s stale", "%(memories)s, %(n)s stale", stale) % {
            "memories": memories, "n": stale
        }  # fmt: skip
    short = _shortened(name)
    return {
        "name": Truncator(name).chars(MAX_WHOLE_NAME), "short": short,
        "href": href, "count": total, "memories": memories, "has_stale": bool(stale),
        "style": style, "radius": RADIUS, "type": "", "size": "",
        "box": Box(max(_width(short), 2 * RADIUS) + GAP, 2 * RADIUS + LINE + GAP),
    }  # fmt: skip


def _positions(node: dict[str, Any], x: float, y: float, box: Box) -> dict[str, Any]:
    radius = node["radius"]
    middle = round(y - box.height / 2 + GAP / 2 + radius, 1)
    text = round(middle + radius + LINE - 2, 1)
    return {
        "x": x, "y": middle, "text_y": text, "size_y": round(text + LINE - 2, 1),
        "badge_x": round(x + radius * 0.75, 1), "badge_y": round(middle - radius * 0.75, 1),
        "badge_text_y": round(middle - radius * 0.75 + 3.5, 1),
    }  # fmt: skip


def _shortened(name: str) -> str:
    name = show_invisible(name)
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"


def _width(text: str) -> float:
    return LETTER * sum(1.8 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)
