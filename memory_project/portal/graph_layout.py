"""Layout of a graph's picture: the center in the middle, and the other nodes on rings by their distance from it.

Each node is placed as close as possible to the direction of the node through which the search reached it. The layout
is deterministic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# All lengths are in view box units.
RING = 150  # distance between two rings
ROOM = 96  # length of a ring's arc that a node with its name needs
MARGIN = 80  # empty space around the outermost nodes
MIN_WIDTH = 560  # minimum width of the view box; a picture of a few nodes would otherwise be enlarged


@dataclass(frozen=True)
class Layout:
    """The positions of nodes: key → (x, y)."""

    points: dict[str, tuple[float, float]]

    @property
    def box(self) -> tuple[float, float, float, float]:
        """The view box around all nodes: left, top, width and height."""
        xs, ys = zip(*self.points.values(), strict=True) if self.points else ((0.0,), (0.0,))
        width, height = (max(values) - min(values) + 2 * MARGIN for values in (xs, ys))
        side = max(width, MIN_WIDTH)
        return (min(xs) - MARGIN - (side - width) / 2, min(ys) - MARGIN, side, height)


def rings(keys: Sequence[str], edges: Sequence[tuple[str, str]], center: str = "") -> Layout:
    """Place the nodes on rings around `center`. Nodes with the same parent keep the order of `keys`.

    Without a center, the first node of each connected part is placed on the innermost rings.
    """
    neighbors: dict[str, list[str]] = {key: [] for key in keys}
    for start, end in edges:
        if start in neighbors and end in neighbors and start != end:
            neighbors[start].append(end)
            neighbors[end].append(start)
    depths, parents = _depths(keys, neighbors, center)
    angles: dict[str, float] = {}
    radius = 0.0
    points: dict[str, tuple[float, float]] = {}
    for depth in range(max(depths.values(), default=0) + 1):
        ring = [key for key in keys if depths[key] == depth]
        if not ring:
            continue
        if depth == 0 and len(ring) == 1 and ring[0] == center:
            points[center] = (0.0, 0.0)
            continue
        ring.sort(key=lambda key: angles.get(parents.get(key, ""), 0.0))  # stable: siblings keep their order
        for part_radius, part in _parts(ring, radius):
            radius = part_radius
            for key, angle in _spread(part, parents, angles, ROOM / radius).items():
                angles[key] = angle
                points[key] = (round(radius * math.cos(angle), 1), round(radius * math.sin(angle), 1))
    return Layout(points)


def _parts(ring: Sequence[str], inner: float) -> list[tuple[float, list[str]]]:
    """Distribute the nodes with the same distance from the center over rings larger than `inner`.

    Returns each ring's radius and keys. One ring is used if it has room for them at a radius of at most
    `inner` + 2 × RING. Otherwise each ring gets nodes in proportion to its radius.
    """
    radius = len(ring) * ROOM / math.tau
    if radius <= inner + 2 * RING:
        return [(max(inner + RING, radius), list(ring))]
    radii = [inner + RING]
    while sum(radii) * math.tau / ROOM < len(ring):
        radii.append(radii[-1] + RING)
    parts: list[list[str]] = [[] for _ in radii]
    for key in ring:
        emptiest = min(range(len(radii)), key=lambda index: (len(parts[index]) + 1) / radii[index])
        parts[emptiest].append(key)
    return list(zip(radii, parts, strict=True))


def _spread(
    ring: Sequence[str], parents: Mapping[str, str], angles: Mapping[str, float], step: float
) -> dict[str, float]:
    """Return an angle for each node of a ring: close to its parent's angle, and at least `step` from the next node.

    If the last node would then be closer than `step` to the first one, the nodes are spread evenly instead.
    """
    even = {key: math.tau * index / len(ring) for index, key in enumerate(ring)}
    targets = {key: angles.get(parents.get(key, ""), even[key]) for key in ring}
    ordered = sorted(ring, key=lambda key: targets[key])  # stable: equal targets keep the given order
    spread: dict[str, float] = {}
    last = -math.inf
    for key in ordered:
        spread[key] = last = max(targets[key], last + step)
    if spread[ordered[-1]] - spread[ordered[0]] > math.tau - step:
        return {key: math.tau * index / len(ordered) for index, key in enumerate(ordered)}
    # The loop only increased angles. Subtract the mean increase, so that deviations from the targets add up to 0.
    shift = sum(spread[key] - targets[key] for key in ordered) / len(ordered)
    return {key: angle - shift for key, angle in spread.items()}


def _depths(
    keys: Sequence[str], neighbors: Mapping[str, Sequence[str]], center: str
) -> tuple[dict[str, int], dict[str, str]]:
    """Return each key's distance from the center and its parent, by breadth-first search.

    A part that is not connected to the center is searched from its first key. This key has no parent. Its distance is
    1, or 0 if there is no center.
    """
    depths: dict[str, int] = {}
    parents: dict[str, str] = {}
    for root in [center, *keys] if center else keys:
        if root in depths:
            continue
        depths[root] = 0 if root == center or not center else 1
        queue = [root]
        while queue:
            key = queue.pop(0)
            for neighbor in neighbors[key]:
                if neighbor not in depths:
                    depths[neighbor], parents[neighbor] = depths[key] + 1, key
                    queue.append(neighbor)
    return depths, parents
