"""Charts rendered as SVG on the server.

They work without JavaScript, in print and in both themes. The values are also available as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from django import template
from django.utils.translation import gettext, ngettext

from knowledge.catalog.entity_view import short_name
from memory_project.web import locale

register = template.Library()

# In view box units. BASE: y of the axis, TOP: y of the highest bar
WIDTH, HEIGHT, BASE, TOP = 460, 150, 126, 16
GAP = 0.25  # share of a bar's slot that stays empty
MAX_LABELS = 6  # maximum number of labels below the bars, so that they don't overlap on a phone


@dataclass(frozen=True)
class ChartPoint:
    """One bar. `bad` is the part of `value` that failed."""

    label: str
    value: float
    bad: float = 0


@register.inclusion_tag("_bars.html")
def bars(points: Sequence[ChartPoint], title: str, name: str, bad_name: str = "") -> dict[str, Any]:
    """Render one bar per point, with the failed part in another color, and a table of the same numbers.

    `name` is the header of the table's value column, and `bad_name` is the header of the column for failures.
    """
    peak = max((point.value for point in points), default=0) or 1
    return {
        **_described(points, title, bad_name),
        "bars": [_bar(points, index, peak, bad_name) for index in range(len(points))],
        "name": name,
        "bad_name": bad_name,
        "peak": peak,
        "box": f"0 0 {WIDTH} {HEIGHT}",
        "base": BASE,
        "top": TOP,
        "peak_y": TOP - 5,
        "width": WIDTH,
        "label_y": HEIGHT - 8,
        "is_empty": all(point.value == 0 for point in points),
    }


def _bar(points: Sequence[ChartPoint], index: int, peak: float, bad_name: str) -> dict[str, Any]:
    point = points[index]
    step = WIDTH / len(points)
    height = (BASE - TOP) * point.value / peak
    bad = (BASE - TOP) * point.bad / peak
    # The labels at both ends stay inside the view box.
    label_x: float = round(index * step + step / 2, 1)
    anchor = "middle"
    if index == 0:
        label_x = 0
        anchor = "start"
    elif index == len(points) - 1:
        label_x = WIDTH
        anchor = "end"
    return {
        "point": point,
        "text": _text_of(point, bad_name),
        "x": round(index * step + step * GAP / 2, 1),
        "width": round(step * (1 - GAP), 1),
        "y": round(BASE - height, 1),
        "height": round(height - bad, 1),
        "bad_y": round(BASE - bad, 1),
        "bad_height": round(bad, 1),
        "labelled": (len(points) - 1 - index) % -(-len(points) // MAX_LABELS) == 0,
        "label_x": label_x,
        "anchor": anchor,
    }


def _described(points: Sequence[ChartPoint], title: str, bad_name: str = "") -> dict[str, Any]:
    """Return the title and the description for screen readers, which names all values that are not 0."""
    values = [_text_of(point, bad_name) for point in points if point.value]
    return {
        "points": points,
        "title": title,
        "description": "; ".join(values) or gettext("All values are 0."),
        "id": f"chart-{crc32(str(title).encode()):x}",
    }


def _text_of(point: ChartPoint, bad_name: str) -> str:
    values = {"label": point.label, "value": locale.number(point.value), "bad": locale.number(point.bad)}
    if not point.bad:
        return gettext("%(label)s: %(value)s") % values
    return gettext("%(label)s: %(value)s, of which %(bad)s %(bad_name)s") % {**values, "bad_name": bad_name}


LABEL, ROW = 170, 24  # in view box units: width of the names' column, height of a row
MAX_NAME = 24  # maximum number of characters shown of a value's name


@register.inclusion_tag("_rows_chart.html")
def spread(points: Sequence[ChartPoint], title: str, label_name: str = "", name: str = "") -> dict[str, Any]:
    """Render a distribution as one row per value, with its name, bar and count.

    With `label_name` and `name`, the headers of its two columns, a table of the same numbers follows.
    """
    peak = max((point.value for point in points), default=0) or 1
    room = WIDTH - LABEL - 60
    drawn = [
        {
            "point": point,
            "text": _text_of(point, ""),
            "name": point.label if len(point.label) <= MAX_NAME else f"{point.label[: MAX_NAME - 1]}…",
            "y": index * ROW + 4,
            "text_y": index * ROW + 16,
            "width": round(max(room * point.value / peak, 1), 1) if point.value else 0,
            "number_x": round(LABEL + max(room * point.value / peak, 1) + 6, 1),
        }
        for index, point in enumerate(points)
    ]
    return {
        **_described(points, title),
        "rows": drawn,
        "label_name": label_name,
        "name": name,
        "box": f"0 0 {WIDTH} {max(len(points), 1) * ROW}",
        "x": LABEL,
        "height": ROW - 8,
    }


# For the lineage chart, in view box units: width and height of a box, vertical and horizontal gap between boxes.
BOX, BOX_HEIGHT, BETWEEN, SIDE_GAP = 190, 40, 14, 70
MAX_NODE_NAME = 24  # maximum number of characters shown of an entity's name
MAX_SIDE = 6  # maximum number of entities drawn on each side; the page also lists all of them as text


@register.inclusion_tag("_lineage.html")
def lineage(
    urn: str, upstream: Sequence[str], downstream: Sequence[str], counts: Mapping[str, tuple[int, int]]
) -> dict[str, Any]:
    """Render an entity's lineage, upstream entities on the left and downstream entities on the right.

    Each box links to its entity. It shows the number of memories about the entity, and how many of them are stale.
    """
    sides = [list(upstream[:MAX_SIDE]), [urn], list(downstream[:MAX_SIDE])]
    columns = [side for side in sides if side]
    height = max(len(side) for side in columns) * (BOX_HEIGHT + BETWEEN) + BETWEEN
    nodes: dict[str, dict[str, Any]] = {}
    for number, side in enumerate(columns):
        first = (height - len(side) * (BOX_HEIGHT + BETWEEN) + BETWEEN) / 2
        for row, node_urn in enumerate(side):
            x = number * (BOX + SIDE_GAP)
            y = first + row * (BOX_HEIGHT + BETWEEN)
            nodes[node_urn] = _node(node_urn, x, y, node_urn == urn, counts.get(node_urn, (0, 0)))
    middle = nodes[urn]
    edges = [_edge(nodes[source], middle) for source in sides[0]]
    edges += [_edge(middle, nodes[target]) for target in sides[2]]
    width = len(columns) * (BOX + SIDE_GAP) - SIDE_GAP
    hidden_count = max(len(upstream) - MAX_SIDE, 0) + max(len(downstream) - MAX_SIDE, 0)
    box = f"0 0 {width} {height:.0f}"
    return {"nodes": list(nodes.values()), "edges": edges, "box": box, "hidden_count": hidden_count, "width": width}


def _node(urn: str, x: float, y: float, is_subject: bool, counts: tuple[int, int]) -> dict[str, Any]:
    full_name = short_name(urn)
    name = ".".join(full_name.split(".")[-2:])
    total, stale = counts
    label = ngettext("%(n)s memory", "%(n)s memories", total) % {"n": total}
    if stale:
        label = ngettext("%(memories)s, %(n)s stale", "%(memories)s, %(n)s stale", stale) % {
            "memories": label, "n": stale
        }  # fmt: skip
    return {
        "urn": urn, "name": name if len(name) <= MAX_NODE_NAME else f"…{name[1 - MAX_NODE_NAME:]}",
        "full_name": full_name,
        "x": x, "y": y, "text_x": x + 10, "name_y": y + 17, "label_y": y + 32, "label": label, "is_subject": is_subject,
        "has_stale": bool(stale), "width": BOX, "height": BOX_HEIGHT,
    }  # fmt: skip


def _edge(start: dict[str, Any], end: dict[str, Any]) -> str:
    """Return the path of a curve from the right side of one box to the left side of another."""
    x1 = start["x"] + BOX
    y1 = start["y"] + BOX_HEIGHT / 2
    x2 = end["x"]
    y2 = end["y"] + BOX_HEIGHT / 2
    middle = (x1 + x2) / 2
    return f"M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}"
