"""Clusters of a graph's entities, for pictures that stay readable: at most MAX_CHILDREN things in each cluster.

Entities with many relations among them share a cluster, clusters with many relations share a larger one, and so on.
The grouping is label propagation (Raghavan, Albert and Kumara 2007) with an upper limit on the size of a group. It is
deterministic: equal graphs have equal clusters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

MAX_CHILDREN = 36
MIN_CHILDREN = 4  # smaller groups are united, so that each level has at most about a quarter of the items below it
ROUNDS = 6  # of label propagation; it changes little after five

Weights = list[dict[int, int]]  # for each item, its related items with the number of relations
Path = tuple[int, ...]


def paths_of(numbers: Sequence[int], edges: Iterable[tuple[int, int]]) -> dict[int, Path]:
    """Return the position of each number in the tree of clusters, from the root down.

    Numbers whose paths begin alike share the cluster of this beginning. The last part distinguishes the entities of a
    cluster.
    """
    index = {number: position for position, number in enumerate(numbers)}
    weights: Weights = [{} for _ in numbers]
    for start, end in edges:
        a = index[start]
        b = index[end]
        if a != b:
            weights[a][b] = weights[a].get(b, 0) + 1
            weights[b][a] = weights[b].get(a, 0) + 1
    levels: list[list[list[int]]] = []  # for each level, the items of each group
    while len(weights) > MAX_CHILDREN:
        groups = _groups(weights)
        levels.append(groups)
        weights = _between(groups, weights)
    paths: list[Path] = [(position,) for position in range(len(weights))]
    for groups in reversed(levels):
        below: dict[int, Path] = {}
        for group, path in zip(groups, paths, strict=True):
            # A group of one item is no cluster: the item takes its place.
            below |= {item: path if len(group) == 1 else (*path, place) for place, item in enumerate(group)}
        paths = [below[item] for item in range(len(below))]
    return {number: paths[position] for number, position in index.items()}


def _groups(weights: Weights) -> list[list[int]]:
    """Return groups of at most MAX_CHILDREN items, ordered by their first item."""
    labels = _propagated(weights)
    groups: dict[int, list[int]] = defaultdict(list)
    for item, label in enumerate(labels):
        groups[label].append(item)
    small = [item for group in groups.values() if len(group) < MIN_CHILDREN for item in group]
    large = {label: group for label, group in groups.items() if len(group) >= MIN_CHILDREN}
    # Items of small groups that have the same large group next to them belong together, such as a hub's neighbors.
    beside: dict[int, list[int]] = defaultdict(list)
    for item in small:
        near: dict[int, int] = defaultdict(int)
        for other, weight in weights[item].items():
            if labels[other] in large:
                near[labels[other]] += weight
        beside[min(near, key=lambda label: (-near[label], label), default=-1)].append(item)
    rest: list[int] = []
    united: list[list[int]] = []
    for label in sorted(beside):
        items = beside[label]
        if label >= 0 and len(large[label]) + len(items) <= MAX_CHILDREN:
            large[label] += items
        elif len(items) >= MIN_CHILDREN:
            united += _chunks(items)
        else:
            rest += items
    united += [*large.values(), *_chunks(rest)]
    return sorted((sorted(group) for group in united), key=lambda group: group[0])


def _propagated(weights: Weights) -> list[int]:
    """Return a label for each item: that of most of its related items, unless the label has MAX_CHILDREN items."""
    labels = list(range(len(weights)))
    sizes = [1] * len(weights)
    order = sorted(range(len(weights)), key=lambda item: -len(weights[item]))  # stable
    for _ in range(ROUNDS):
        moved = False
        for item in order:
            own = labels[item]
            totals: dict[int, int] = defaultdict(int)
            for other, weight in weights[item].items():
                totals[labels[other]] += weight
            best = own
            most = totals.get(own, 0)
            for label, total in totals.items():
                if (total > most or (total == most and label < best != own)) and sizes[label] < MAX_CHILDREN:
                    best = label
                    most = total
            if best != own:
                labels[item] = best
                sizes[own] -= 1
                sizes[best] += 1
                moved = True
        if not moved:
            break
    return labels


def _chunks(items: Sequence[int]) -> list[list[int]]:
    return [list(items[start : start + MAX_CHILDREN]) for start in range(0, len(items), MAX_CHILDREN)]


def _between(groups: Sequence[Sequence[int]], weights: Weights) -> Weights:
    group_of = {item: position for position, group in enumerate(groups) for item in group}
    between: Weights = [defaultdict(int) for _ in groups]
    for item, related in enumerate(weights):
        own = group_of[item]
        for other, weight in related.items():
            if group_of[other] != own:
                between[own][group_of[other]] += weight
    return between
