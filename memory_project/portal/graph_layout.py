"""Where the nodes of a graph stand in its picture: the centre in the middle, the others on rings by their distance from
it, each near the one that it hangs on. The same graph is always drawn the same."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RING = 150  # of the view box, between two rings
ROOM = 96  # along a ring, for a node with its name
MARGIN = 80
MIN_SIDE = 560


@dataclass(frozen=True)
class Layout:
    """Key → x and y."""

    points: dict[str, tuple[float, float]]

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, top, width and height of what is drawn, with a margin; small pictures are not blown up."""
        xs, ys = zip(*self.points.values(), strict=True) if self.points else ((0.0,), (0.0,))
        width, height = (max(values) - min(values) + 2 * MARGIN for values in (xs, ys))
        side = max(width, MIN_SIDE)
        return (min(xs) - MARGIN - (side - width) / 2, min(ys) - MARGIN, side, height)


def rings(keys: Sequence[str], edges: Sequence[tuple[str, str]], centre: str = "") -> Layout:
    """`keys` in the order in which they are placed; `edges` between them. Without a centre the first of each connected
    part stands on the first ring."""
    neighbours: dict[str, list[str]] = {key: [] for key in keys}
    for start, end in edges:
        if start in neighbours and end in neighbours and start != end:
            neighbours[start].append(end)
            neighbours[end].append(start)
    depths, parents = _depths(keys, neighbours, centre)
    angles: dict[str, float] = {}
    radius = 0.0
    points: dict[str, tuple[float, float]] = {}
    for depth in range(max(depths.values(), default=0) + 1):
        ring = [key for key in keys if depths[key] == depth]
        if not ring:
            continue
        if depth == 0 and len(ring) == 1 and ring[0] == centre:
            points[centre] = (0.0, 0.0)
            continue
        ring.sort(key=lambda key: angles.get(parents.get(key, ""), 0.0))  # stable
        for part_radius, part in _parts(ring, radius):
            radius = part_radius
            for key, angle in _spread(part, parents, angles, ROOM / radius).items():
                angles[key] = angle
                points[key] = (round(radius * math.cos(angle), 1), round(radius * math.sin(angle), 1))
    return Layout(points)


def _parts(ring: Sequence[str], inner: float) -> list[tuple[float, list[str]]]:
    """Radius and keys: one ring outside of `inner`, wider where it takes some room, or of a crowd several rings, each
    with its share from all around."""
    radius = len(ring) * ROOM / math.tau
    if radius <= inner + 2 * RING:
        return [(max(inner + RING, radius), list(ring))]
    radii = [inner + RING]
    while sum(radii) * math.tau / ROOM < len(ring):
        radii.append(radii[-1] + RING)
    parts: list[list[str]] = [[] for _ in radii]
    for key in ring:
        emptiest = min(range(len(radii)), key=lambda n: (len(parts[n]) + 1) / radii[n])
        parts[emptiest].append(key)
    return list(zip(radii, parts, strict=True))


def _spread(
    ring: Sequence[str], parents: Mapping[str, str], angles: Mapping[str, float], step: float
) -> dict[str, float]:
    """An angle for each key of a ring: as near to that of the key it hangs on as the others leave room, `step` apart,
    and all around where there is none."""
    even = {key: math.tau * n / len(ring) for n, key in enumerate(ring)}
    targets = {key: angles.get(parents.get(key, ""), even[key]) for key in ring}
    line = sorted(ring, key=lambda key: targets[key])  # stable: in the order in which they are placed
    spread: dict[str, float] = {}
    last = -math.inf
    for key in line:
        spread[key] = last = max(targets[key], last + step)
    if spread[line[-1]] - spread[line[0]] > math.tau - step:
        return {key: math.tau * n / len(line) for n, key in enumerate(line)}
    shift = sum(spread[key] - targets[key] for key in line) / len(line)
    return {key: angle - shift for key, angle in spread.items()}


def _depths(
    keys: Sequence[str], neighbours: Mapping[str, Sequence[str]], centre: str
) -> tuple[dict[str, int], dict[str, str]]:
    """The distance of each key from the centre, and the key that it was reached from."""
    depths: dict[str, int] = {}
    parents: dict[str, str] = {}
    for root in [centre, *keys] if centre else keys:
        if root in depths:
            continue
        depths[root] = 0 if root == centre or not centre else 1
        line = [root]
        while line:
            key = line.pop(0)
            for near in neighbours[key]:
                if near not in depths:
                    depths[near], parents[near] = depths[key] + 1, key
                    line.append(near)
    return depths, parents
