"""Charts as SVG made on the server: they work without script, in print and in both themes; the same numbers stand
in a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import template

register = template.Library()

WIDTH, HEIGHT, BASE, TOP = 460, 150, 126, 16  # of the view box; BASE is the axis, TOP leaves room for the highest value
GAP = 0.25  # of a bar's place


@dataclass(frozen=True)
class Point:
    """One bar: `bad` is the part of `value` that went wrong."""

    label: str
    value: float
    bad: float = 0


@register.inclusion_tag("_bars.html")
def bars(points: Sequence[Point], title: str, name: str, bad_name: str = "") -> dict[str, Any]:
    """A bar a point, the failed part of it in another colour. `name` heads the values' column of the table."""
    peak = max((point.value for point in points), default=0) or 1
    step = WIDTH / max(len(points), 1)
    drawn = []
    for index, point in enumerate(points):
        height = (BASE - TOP) * point.value / peak
        bad = (BASE - TOP) * point.bad / peak
        drawn.append(
            {
                "point": point,
                "x": round(index * step + step * GAP / 2, 1),
                "width": round(step * (1 - GAP), 1),
                "y": round(BASE - height, 1),
                "height": round(height - bad, 1),
                "bad_y": round(BASE - bad, 1),
                "bad_height": round(bad, 1),
                "middle": round(index * step + step / 2, 1),
                "labelled": len(points) <= 8 or index % (len(points) // 6 or 1) == 0,
            }
        )
    return {
        "bars": drawn,
        "points": points,
        "title": title,
        "name": name,
        "bad_name": bad_name,
        "peak": peak,
        "box": f"0 0 {WIDTH} {HEIGHT}",
        "base": BASE,
        "width": WIDTH,
        "label_y": HEIGHT - 8,
        "is_empty": all(point.value == 0 for point in points),
    }


LABEL, ROW = 170, 24  # of the view box: room for a value's name, and the height of a row
NAME_MOST = 24  # characters of a value's name


@register.inclusion_tag("_rows_chart.html")
def spread(points: Sequence[Point], title: str) -> dict[str, Any]:
    """A distribution: a row a value, with its name, bar and number."""
    peak = max((point.value for point in points), default=0) or 1
    room = WIDTH - LABEL - 60
    drawn = [
        {
            "point": point,
            "name": point.label if len(point.label) <= NAME_MOST else f"{point.label[: NAME_MOST - 1]}…",
            "y": index * ROW + 4,
            "text_y": index * ROW + 16,
            "width": round(max(room * point.value / peak, 1), 1),
            "number_x": round(LABEL + max(room * point.value / peak, 1) + 6, 1),
        }
        for index, point in enumerate(points)
    ]
    return {
        "rows": drawn,
        "title": title,
        "box": f"0 0 {WIDTH} {max(len(points), 1) * ROW}",
        "x": LABEL,
        "height": ROW - 8,
    }
