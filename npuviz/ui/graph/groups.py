"""Find groups of operators that can be folded: by common names, or where paths part and meet again."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.program.graph import Graph

LEAST = 3
"""Fewest operators that are worth folding."""
MOST_LEVELS = 16
"""Most levels of nested groups, because names in a file may have any number of parts."""


@dataclass(frozen=True, slots=True)
class Group:
    """Operators that can be drawn as one box, in rising order; the first is the leader."""

    name: str
    nodes: tuple[int, ...]

    @property
    def leader(self) -> int:
        """The operator whose box stands for the group."""
        return self.nodes[0]


def groups_of(graph: Graph) -> tuple[Group, ...]:
    """Return the groups of a graph, outer ones first; two groups are nested or disjoint.

    Any of them can be drawn as boxes without creating a cycle between boxes.
    """
    return tuple(_by_name(graph)) or _branches(graph)


def outermost(folded: Collection[Group]) -> tuple[Group, ...]:
    """Return the groups that are inside no other folded one: those whose boxes are drawn."""
    inside: set[int] = set()
    found: list[Group] = []
    for group in sorted(folded, key=lambda group: -len(group.nodes)):
        if group.leader not in inside:
            inside.update(group.nodes)
            found.append(group)
    return tuple(found)


def leaders_of(graph: Graph, folded: Collection[Group]) -> np.ndarray:
    """Return for each node the leader of its outermost folded group, else the node itself: (nodes,) int32."""
    found = np.arange(len(graph.nodes), dtype=np.int32)
    for group in outermost(folded):
        found[list(group.nodes)] = group.leader
    return found


def _by_name(graph: Graph) -> list[Group]:
    """Return groups of operators whose names, such as /layer1/conv1/Conv or query.matmul, begin alike."""
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
    """Return the groups among `nodes`, each followed by those inside it, up to `levels` deep.

    begin  index of the first part of the names to compare, and the text that the groups' names begin with

    Each level is checked for cycles separately: a cycle that leaves the group around an inner box would also
    be
    a cycle of outer boxes, which were checked before.
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
    """Return groups of consecutive operators between points at which only one tensor is live."""
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
    """Return the groups without those that a path leaves and enters again."""
    kept = list(groups)
    while kept:
        leader = leaders_of(graph, kept)
        left = _in_circles(graph, leader)
        bad = [group for group in kept if group.leader in left]
        if not bad:
            break
        # The largest group is the most likely cause of a cycle.
        kept.remove(max(bad, key=lambda group: len(group.nodes)))
    return tuple(kept)


def _in_circles(graph: Graph, leader: np.ndarray) -> set[int]:
    """Return the leaders whose boxes are in a cycle of boxes, or depend on one that is."""
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
