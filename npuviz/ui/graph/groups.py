"""Groups of operators that a graph can fold: what their names say, or where paths part and meet again."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.program.graph import Graph

LEAST = 3
"""Operators from which on folding is worth while."""
MOST_LEVELS = 16
"""Groups in groups: no model has more, and a file's names may go as deep as they like."""


@dataclass(frozen=True, slots=True)
class Group:
    """Operators that can be drawn as one box; the first of them stands for all. nodes rise."""

    name: str
    nodes: tuple[int, ...]

    @property
    def leader(self) -> int:
        """The operator whose box stands for the group."""
        return self.nodes[0]


def groups_of(graph: Graph) -> tuple[Group, ...]:
    """Groups that lie in each other or apart, outer ones first; any of them can be boxes without a circle."""
    return tuple(_by_name(graph)) or _branches(graph)


def outermost(folded: Collection[Group]) -> tuple[Group, ...]:
    """The groups that lie in no other one of them: those whose boxes are drawn."""
    inside: set[int] = set()
    found: list[Group] = []
    for group in sorted(folded, key=lambda group: -len(group.nodes)):
        if group.leader not in inside:
            inside.update(group.nodes)
            found.append(group)
    return tuple(found)


def leaders_of(graph: Graph, folded: Collection[Group]) -> np.ndarray:
    """(nodes,) int32: the operator whose box stands for each."""
    found = np.arange(len(graph.nodes), dtype=np.int32)
    for group in outermost(folded):
        found[list(group.nodes)] = group.leader
    return found


def _by_name(graph: Graph) -> list[Group]:
    """What names like /layer1/conv1/Conv or query.matmul have in common behind what all have."""
    names = [node.name for node in graph.nodes]
    separator = "/" if any("/" in name.strip("/") for name in names) else "."
    parts = [tuple(part for part in name.split(separator) if part) for name in names]
    return _levels(graph, parts, separator, range(len(names)), (0, ""), MOST_LEVELS)


def _levels(
    graph: Graph,
    parts: Sequence[tuple[str, ...]],
    separator: str,
    nodes: Sequence[int],
    begin: tuple[int, str],
    levels: int,
) -> list[Group]:
    """Groups among `nodes`, each before those in it, so many levels deep.

    begin  the part of their names from which on they differ, and what the groups' names begin with
    Each level is checked for circles by itself: one that leaves the group around an inner box would be a
    circle of outer boxes, which are checked before.
    """
    depth, above = begin
    shared = depth
    deep = [parts[node] for node in nodes if len(parts[node]) > depth + 1]
    while deep and len({part[: shared + 1] for part in deep}) == 1 and len(deep[0]) > shared + 1:
        shared += 1
    prefixes = {parts[node][: shared + 1] for node in nodes if len(parts[node]) > shared + 1}
    members: dict[tuple[str, ...], list[int]] = {}
    for node in nodes:
        if (prefix := parts[node][: shared + 1]) in prefixes:
            members.setdefault(prefix, []).append(node)
    kept = _without_circles(
        graph,
        [
            Group(f"{above}{prefix[-1]}", tuple(inside))
            for prefix, inside in members.items()
            if LEAST <= len(inside) < len(nodes)
        ],
    )
    found: list[Group] = []
    for group in kept:
        found.append(group)
        if levels > 1:
            inner = shared + 1, f"{group.name}{separator}"
            found += _levels(graph, parts, separator, group.nodes, inner, levels - 1)
    return found


def _branches(graph: Graph) -> tuple[Group, ...]:
    """Stretches in which more than one tensor is under way: from where paths part to where they meet."""
    ends = {
        tensor.id: tensor.producer for tensor in graph.tensors if tensor.producer >= 0
    }  # tensor -> last node that reads it
    for node in graph.nodes:
        ends.update((index, node.id) for index in node.inputs if index in ends)
    living = np.zeros(len(graph.nodes) + 1, np.int64)
    for tensor, last in ends.items():
        first = graph.tensors[tensor].producer
        living[first] += 1
        living[last] -= 1
    across = np.cumsum(living)[:-1]
    found: list[Group] = []
    begin = 0
    for node in range(len(graph.nodes)):
        if across[node] > 1:
            continue
        nodes = tuple(range(begin, node + 1))
        if LEAST <= len(nodes) < len(graph.nodes):
            found.append(Group(f"{graph.nodes[begin].op_type} \u2026 {graph.nodes[node].op_type}", nodes))
        begin = node + 1
    return tuple(found)


def _without_circles(graph: Graph, groups: Sequence[Group]) -> tuple[Group, ...]:
    """The groups without those that a path leaves and enters again."""
    kept = list(groups)
    while kept:
        leader = leaders_of(graph, kept)
        left = _in_circles(graph, leader)
        bad = [group for group in kept if group.leader in left]
        if not bad:
            break
        # The largest is the likeliest to have the others' operators in between.
        kept.remove(max(bad, key=lambda group: len(group.nodes)))
    return tuple(kept)


def _in_circles(graph: Graph, leader: np.ndarray) -> set[int]:
    """Leaders that wait for themselves, or for such ones, when boxes are taken as wholes."""
    edges = {
        (int(leader[graph.tensors[index].producer]), int(leader[node.id]))
        for node in graph.nodes
        for index in node.inputs
        if index >= 0 and graph.tensors[index].producer >= 0
    }
    following: dict[int, list[int]] = {}
    waiting = dict.fromkeys(leader.tolist(), 0)
    for a, b in edges:
        if a != b:
            following.setdefault(a, []).append(b)
            waiting[b] += 1
    ready = [box for box, count in waiting.items() if not count]
    while ready:
        for other in following.get(ready.pop(), ()):
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    return {box for box, count in waiting.items() if count}
