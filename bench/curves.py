"""Curves as SVG: small charts in two columns, over minutes with linear axes, or over sizes with logarithmic ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 440, 224  # of a chart, in pixels
LEFT, TOP, RIGHT, BOTTOM = 48, 34, 12, 58  # margins around the curves
COLORS = (
    "#1f5f4d",
    "#b3541e",
    "#3b5ba9",
    "#8a3b7a",
    "#6b6b6b",
    "#a08a00",
    "#007a8a",
    "#c0392b",
    "#4a7c1f",
    "#d1789b",
    "#25408f",
    "#000000",
)
STYLE = "text{font:11px sans-serif;fill:#333}.t{font-size:13px;font-weight:600}.a{fill:#777}"
SMALLEST = 0.1  # values below are drawn there on a logarithmic axis


@dataclass(frozen=True)
class Line:
    name: str
    points: Sequence[tuple[float, float]]  # seconds, or a size, and the value


@dataclass(frozen=True)
class Chart:
    title: str
    lines: Sequence[Line]
    is_logarithmic: bool = False  # both axes; then the points are drawn, too


@dataclass(frozen=True)
class Axis:
    """Where the values of an axis are, as a share of its length, and the values that are written at it."""

    share: Callable[[float], float]
    marks: Sequence[tuple[float, str]]


def drawing(charts: Sequence[Chart]) -> str:
    """Return the charts as one SVG picture."""
    rows = -(-len(charts) // 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{rows * HEIGHT}" role="img">',
        f"<style>{STYLE}</style>",
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for number, chart in enumerate(charts):
        row, column = divmod(number, 2)
        parts.append(f'<g transform="translate({column * WIDTH},{row * HEIGHT})">{_chart(chart)}</g>')
    return "\n".join([*parts, "</svg>", ""])


def _linear(highest: float, marks: Sequence[tuple[float, str]]) -> Axis:
    return Axis(lambda value: value / highest, marks)


def _logarithmic(values: Sequence[float]) -> Axis:
    low = floor(log10(max(min(values), SMALLEST)))
    high = max(ceil(log10(max(max(values), SMALLEST))), low + 1)
    marks = [(10.0**power, f"{10.0**power:,.10g}") for power in range(low, high + 1)]
    return Axis(lambda value: (log10(max(value, SMALLEST)) - low) / (high - low), marks)


def _axes(chart: Chart) -> tuple[Axis, Axis]:
    points = [point for line in chart.lines for point in line.points]
    if chart.is_logarithmic:
        return _logarithmic([x for x, _ in points]), _logarithmic([y for _, y in points])
    last = max((x for x, _ in points), default=1.0) or 1.0
    highest = max((y for _, y in points), default=1.0) or 1.0
    halves = [(share * highest, f"{share * highest:,.0f}") for share in (0.0, 0.5, 1.0)]
    return _linear(last, [(last, f"{last / 60:.0f} min")]), _linear(highest, halves)


def _chart(chart: Chart) -> str:
    right = WIDTH - RIGHT
    bottom = HEIGHT - BOTTOM
    x_axis, y_axis = _axes(chart)

    def x_of(value: float) -> float:
        return LEFT + x_axis.share(value) * (right - LEFT)

    def y_of(value: float) -> float:
        return bottom - y_axis.share(value) * (bottom - TOP)

    parts = [f'<text class="t" x="{LEFT}" y="18">{escape(chart.title)}</text>']
    for value, text in y_axis.marks:
        y = y_of(value)
        parts.append(f'<path d="M{LEFT},{y:.1f}H{right}" stroke="#ddd" fill="none"/>')
        parts.append(f'<text class="a" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    for value, text in x_axis.marks:
        anchor = "end" if x_of(value) > right - 20 else "middle"
        parts.append(f'<text class="a" x="{x_of(value):.1f}" y="{bottom + 14}" text-anchor="{anchor}">{text}</text>')
    if len(chart.lines) > len(COLORS):
        raise ValueError(f"{chart.title}: {len(chart.lines)} lines, but {len(COLORS)} colors")
    for line, color in zip(chart.lines, COLORS, strict=False):
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in line.points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.4"/>')
        if chart.is_logarithmic:
            parts += [f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="2.5" fill="{color}"/>' for x, y in line.points]
    return "".join([*parts, *_legend(chart)])


def _legend(chart: Chart) -> list[str]:
    parts = []
    x = LEFT
    y = HEIGHT - 24
    for line, color in zip(chart.lines, COLORS, strict=False):
        name = line.name[:22] or chart.title.split(",")[0]
        length = 6 * len(name) + 12
        if x + length > WIDTH:
            x = LEFT
            y += 14
        parts.append(f'<text x="{x}" y="{y}" style="fill:{color}">{escape(name)}</text>')
        x += length
    return parts
