"""Layout of a graph's picture: connected nodes are near each other, and no two names overlap.

The layout is deterministic, so a picture looks the same each time it is opened.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

# All lengths are in view box units.
PADDING = 24  # empty space around the outermost nodes
MIN_WIDTH = 560  # minimum width of the view box; a picture of a few nodes would otherwise be enlarged


@dataclass(frozen=True)
class Box:
    """The room that a node needs with its name, in view box units."""

    width: float
    height: float


STEPS = 90  # of the forces; the picture hardly changes after them
UNTANGLING = 60  # maximum number of rounds that separate overlapping names
GOLDEN = math.pi * (3 - math.sqrt(5))  # the angle between two seeds of a sunflower


def spread_out(boxes: Sequence[Box], edges: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """Return positions at which connected nodes are near each other and no two names overlap.

    Nodes repel each other and edges pull (Fruchterman and Reingold 1991), from fixed places on a spiral. `edges` are
    positions in `boxes`. Meant for pictures of up to about 150 nodes: the work grows with the square of their number.
    """
    count = len(boxes)
    if not count:
        return []
    sizes = numpy.array([(box.width, box.height) for box in boxes])
    ideal = float(numpy.sqrt((sizes[:, 0] * sizes[:, 1]).mean() * 1.3))
    order = numpy.arange(count)
    radius = ideal * numpy.sqrt(order + 0.5) * 0.7
    at = numpy.stack([radius * numpy.cos(order * GOLDEN) * 1.3, radius * numpy.sin(order * GOLDEN)], axis=1)
    starts = numpy.array([start for start, _ in edges], dtype=int)
    ends = numpy.array([end for _, end in edges], dtype=int)
    for step in range(STEPS):
        apart = at[:, None, :] - at[None, :, :]
        distance = numpy.maximum(numpy.hypot(apart[..., 0], apart[..., 1]), 1.0)
        move = (apart * (ideal**2 / distance**2)[..., None]).sum(axis=1)
        if len(edges):
            along = at[starts] - at[ends]
            pull = along * (numpy.hypot(along[:, 0], along[:, 1]) / ideal)[:, None]
            numpy.add.at(move, starts, -pull)
            numpy.add.at(move, ends, pull)
        move -= at * [0.15, 0.28]  # towards the middle, so that unconnected parts stay close; wider than high
        length = numpy.maximum(numpy.hypot(move[:, 0], move[:, 1]), 1e-6)
        limit = ideal * (1 - step / STEPS)
        at += move * (numpy.minimum(length, limit) / length)[:, None]
    return [(round(float(x), 1), round(float(y), 1)) for x, y in _separated(at, sizes)]


def _separated(at: Any, sizes: Any) -> Any:
    """Move boxes apart along the axis on which they overlap less, until none overlap or the rounds are used up."""
    order = numpy.arange(len(at))
    sign_of_order = numpy.sign(order[:, None] - order[None, :])
    for _ in range(UNTANGLING):
        apart = at[:, None, :] - at[None, :, :]
        overlap = (sizes[:, None, :] + sizes[None, :, :]) / 2 - numpy.abs(apart)
        touching = (overlap > 0).all(axis=2)
        numpy.fill_diagonal(touching, val=False)
        if not touching.any():
            break
        horizontal = overlap[..., 0] < overlap[..., 1]
        for axis, chosen in ((0, touching & horizontal), (1, touching & ~horizontal)):
            direction = numpy.sign(apart[..., axis])
            direction = numpy.where(direction == 0, sign_of_order, direction)
            at[:, axis] += (numpy.where(chosen, overlap[..., axis] + 1, 0) * direction).sum(axis=1) / 2
    return at


def view_box(points: Sequence[tuple[float, float]], boxes: Sequence[Box]) -> tuple[float, float, float, float]:
    """Return left, top, width and height of the box around all nodes and their names."""
    left = min(x - box.width / 2 for (x, _), box in zip(points, boxes, strict=True))
    right = max(x + box.width / 2 for (x, _), box in zip(points, boxes, strict=True))
    top = min(y - box.height / 2 for (_, y), box in zip(points, boxes, strict=True))
    bottom = max(y + box.height / 2 for (_, y), box in zip(points, boxes, strict=True))
    width = max(right - left + 2 * PADDING, MIN_WIDTH)
    return ((left + right - width) / 2, top - PADDING, width, bottom - top + 2 * PADDING)
