"""Scenes of the graph page: which clusters and entities a picture shows, and how they are connected.

A graph of up to MAX_DRAWN entities is drawn as a whole. A larger one is drawn as clusters, which are opened one at a
time, so that every name in a picture can be read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from knowledge.graph.clusters import Path
from knowledge.graph.drawing import MAX_DRAWN, Structure

LEADERS = 3  # number of entities that are named in a cluster
MAX_OUTSIDE = 6  # maximum number of clusters outside of the opened one that are drawn beside it


@dataclass(frozen=True)
class SceneGroup:
    """A cluster in a scene. `numbers` are its entities, those with the most relations first."""

    path: Path
    numbers: list[int]
    is_outside: bool = False

    @property
    def leaders(self) -> list[int]:
        return self.numbers[:LEADERS]


@dataclass(frozen=True)
class Scene:
    """Entities by number, clusters by path, and the number of relations between two of them."""

    numbers: list[int] = field(default_factory=list)
    groups: list[SceneGroup] = field(default_factory=list)
    weights: dict[tuple[int | Path, int | Path], int] = field(default_factory=dict)

    @property
    def named(self) -> set[int]:
        return {*self.numbers, *(number for group in self.groups for number in group.leaders)}


def cluster_path(structure: Structure, number: int | None, depth: int) -> Path:
    """Return the path of the cluster that contains the entity at this depth. The depth 0 is the whole graph.

    An address names a cluster in this way, because clusters change with the graph.
    """
    path = structure.paths.get(number, ()) if number else ()
    return path[: max(min(depth, len(path) - 1), 0)]


def overview(structure: Structure, path: Path) -> Scene:
    """Return the scene of a cluster, or of the whole graph for an empty path."""
    if not path and len(structure.paths) <= MAX_DRAWN:
        numbers = structure.most_connected(structure.paths)
        return Scene(numbers=numbers, weights=_weights(structure, {number: number for number in numbers}))
    keys: dict[int, int | Path] = {}
    members: dict[Path, list[int]] = defaultdict(list)
    numbers = []
    depth = len(path)
    for number, own in structure.paths.items():
        if own[:depth] != path:
            continue
        if len(own) == depth + 1:
            keys[number] = number
            numbers.append(number)
        else:
            keys[number] = own[: depth + 1]
            members[own[: depth + 1]].append(number)
    outside = _outside(structure, keys, path)
    keys |= {number: group.path for group in outside for number in group.numbers}
    groups = [SceneGroup(key, structure.most_connected(inside)) for key, inside in members.items()]
    return Scene(
        structure.most_connected(numbers),
        [*sorted(groups, key=lambda group: (-len(group.numbers), group.path)), *outside],
        _weights(structure, keys),
    )


def _outside(structure: Structure, keys: dict[int, int | Path], path: Path) -> list[SceneGroup]:
    """Return the clusters outside of the opened one that have the most relations with it."""
    if not path:
        return []
    links: Counter[Path] = Counter()
    for start, end in structure.edges:
        if (start in keys) != (end in keys):
            links[_beside(structure.paths[end if start in keys else start], path)] += 1
    chosen = [key for key, _ in sorted(links.items(), key=lambda item: (-item[1], item[0]))[:MAX_OUTSIDE]]
    members: dict[Path, list[int]] = {key: [] for key in chosen}
    for number, own in structure.paths.items():
        key = _beside(own, path)
        if key in members and number not in keys:
            members[key].append(number)
    return [SceneGroup(key, structure.most_connected(numbers), is_outside=True) for key, numbers in members.items()]


def _beside(own: Path, path: Path) -> Path:
    """Return the largest cluster of an entity that doesn't contain the opened cluster."""
    common = next((at for at, (a, b) in enumerate(zip(own, path, strict=False)) if a != b), len(path))
    return own[: common + 1]


def _weights(
    structure: Structure, keys: dict[int, int] | dict[int, int | Path]
) -> dict[tuple[int | Path, int | Path], int]:
    weights: dict[tuple[int | Path, int | Path], int] = {}
    for start, end in structure.edges:
        a = keys.get(start)
        b = keys.get(end)
        if a is None or b is None or a == b:
            continue
        pair = (b, a) if (b, a) in weights else (a, b)
        weights[pair] = weights.get(pair, 0) + 1
    return weights
