"""Find the cheapest cut of a network in two by Dinic's algorithm, which fills shortest paths, one length at a
time."""

from collections import deque

ENDLESS = 1 << 60
"""Capacity of an arc that no cut goes through: more than all costs together."""


class Network:
    """A network: node 0 (the source), 1 (the sink) and added ones; arcs with a capacity each."""

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._left: list[int] = []
        self._arcs: list[list[int]] = [[], []]

    def node(self) -> int:
        """Add a node; return its number."""
        self._arcs.append([])
        return len(self._arcs) - 1

    def arc(self, start: int, end: int, capacity: int) -> None:
        """Add an arc: its capacity is the cost of a cut with `start` on the source's side and `end` on the
        other."""
        if capacity <= 0 or start == end:
            return
        self._arcs[start].append(len(self._ends))
        self._arcs[end].append(len(self._ends) + 1)
        self._ends += [end, start]
        self._left += [capacity, 0]

    def sink_side(self) -> set[int]:
        """Return the nodes on the sink's side of a cheapest cut, as few as possible."""
        while True:
            levels = self._levels()
            if levels[1] < 0:
                return self._reaching()
            self._fill(levels)

    def _reaching(self) -> set[int]:
        """Return the nodes from which remaining capacity leads to the sink."""
        found, waiting = {1}, [1]
        while waiting:
            for arc in self._arcs[waiting.pop()]:
                start = self._ends[arc]
                if self._left[arc ^ 1] and start not in found:
                    found.add(start)
                    waiting.append(start)
        return found

    def _levels(self) -> list[int]:
        """Return the number of arcs from the source to each node through remaining capacity, -1 if there is
        no path."""
        levels = [-1] * len(self._arcs)
        levels[0] = 0
        waiting: deque[int] = deque((0,))
        while waiting:
            here = waiting.popleft()
            for arc in self._arcs[here]:
                end = self._ends[arc]
                if self._left[arc] and levels[end] < 0:
                    levels[end] = levels[here] + 1
                    waiting.append(end)
        return levels

    def _fill(self, levels: list[int]) -> None:
        """Fill shortest paths until there is none. Arcs of a node that lead nowhere are not tried again."""
        tried = [0] * len(self._arcs)
        way: list[int] = []
        here = 0
        while True:
            if here == 1:
                here = self._push(way)
            step = self._step(here, levels, tried)
            if step >= 0:
                way.append(step)
                here = self._ends[step]
            elif way:
                here = self._ends[way.pop() ^ 1]
                tried[here] += 1
            else:
                return

    def _step(self, here: int, levels: list[int], tried: list[int]) -> int:
        """Return the next arc of a shortest path, -1 if there is none."""
        arcs = self._arcs[here]
        while tried[here] < len(arcs):
            arc = arcs[tried[here]]
            if self._left[arc] and levels[self._ends[arc]] == levels[here] + 1:
                return arc
            tried[here] += 1
        return -1

    def _push(self, way: list[int]) -> int:
        """Push what fits through a whole path; shorten it to the start of its first full arc, and return that
        node."""
        least = min(self._left[arc] for arc in way)
        for arc in way:
            self._left[arc] -= least
            self._left[arc ^ 1] += least
        full = next(number for number, arc in enumerate(way) if not self._left[arc])
        here = self._ends[way[full] ^ 1]
        del way[full:]
        return here
