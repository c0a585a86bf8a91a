"""Curves as SVG: small charts in two columns, with time in minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 440, 224  # of a chart, in pixels
LEFT, TOP, RIGHT, BOTTOM = 48, 34, 12, 58  # margins around the curves
COLORS = ("#1f5f4d", "#b3541e", "#3b5ba9", "#8a3b7a", "#6b6b6b", "#a08a00", "#007a8a", "#c0392b")
STYLE = "text{font:11px sans-serif;fill:#333}.t{font-size:13px;font-weight:600}.a{fill:#777}"


@dataclass(frozen=True)
class Line:
    name: str
    points: Sequence[tuple[float, float]]  # seconds and value


@dataclass(frozen=True)
class Chart:
    title: str
    lines: Sequence[Line]


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


def _chart(chart: Chart) -> str:
    points = [point for line in chart.lines for point in line.points]
    last = max((at for at, _ in points), default=1.0) or 1.0
    highest = max((value for _, value in points), default=1.0) or 1.0
    right = WIDTH - RIGHT
    bottom = HEIGHT - BOTTOM

    def place(at: float, value: float) -> str:
        return f"{LEFT + at / last * (right - LEFT):.1f},{bottom - value / highest * (bottom - TOP):.1f}"

    parts = [f'<text class="t" x="{LEFT}" y="18">{escape(chart.title)}</text>']
    for share in (0.0, 0.5, 1.0):
        y = bottom - share * (bottom - TOP)
        parts.append(f'<path d="M{LEFT},{y:.1f}H{right}" stroke="#ddd" fill="none"/>')
        parts.append(f'<text class="a" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share * highest:,.0f}</text>')
    parts.append(f'<text class="a" x="{right}" y="{bottom + 14}" text-anchor="end">{last / 60:.0f} min</text>')
    x = LEFT
    y = HEIGHT - 24
    for line, color in zip(chart.lines, COLORS, strict=False):
        path = " ".join(place(at, value) for at, value in line.points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.4"/>')
        name = line.name[:22] or chart.title.split(",")[0]
        length = 6 * len(name) + 12
        if x + length > WIDTH:
            x = LEFT
            y += 14
        parts.append(f'<text x="{x}" y="{y}" style="fill:{color}">{escape(name)}</text>')
        x += length
    return "".join(parts)
