"""The cheapest way to cut a network in two, by Dinic's algorithm: shortest ways are filled, all of one length
at a time."""

from collections import deque

ENDLESS = 1 << 60
"""More than all costs together: an arc that no cut goes through."""


class Network:
    """Nodes 0 (the source) and 1 (the sink), and those that are added; arcs with a capacity each."""

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._left: list[int] = []
        self._arcs: list[list[int]] = [[], []]

    def node(self) -> int:
        """A new node's number."""
        self._arcs.append([])
        return len(self._arcs) - 1

    def arc(self, start: int, end: int, capacity: int) -> None:
        """What a cut costs that has `start` on the source's side, and `end` on the other."""
        if capacity <= 0 or start == end:
            return
        self._arcs[start].append(len(self._ends))
        self._arcs[end].append(len(self._ends) + 1)
        self._ends += [end, start]
        self._left += [capacity, 0]

    def sink_side(self) -> set[int]:
        """Nodes on the sink's side of a cheapest cut, as few as there can be."""
        while True:
            levels = self._levels()
            if levels[1] < 0:
                return self._reaching()
            self._fill(levels)

    def _reaching(self) -> set[int]:
        """Nodes from which what is left leads to the sink."""
        found, waiting = {1}, [1]
        while waiting:
            for arc in self._arcs[waiting.pop()]:
                start = self._ends[arc]
                if self._left[arc ^ 1] and start not in found:
                    found.add(start)
                    waiting.append(start)
        return found

    def _levels(self) -> list[int]:
        """Arcs from the source to each node through what is left, -1 where there is no way."""
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
        """Fill shortest ways until there is none. A node's arcs that lead nowhere are not tried again."""
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
        """The next arc of a shortest way, -1 if there is none."""
        arcs = self._arcs[here]
        while tried[here] < len(arcs):
            arc = arcs[tried[here]]
            if self._left[arc] and levels[self._ends[arc]] == levels[here] + 1:
                return arc
            tried[here] += 1
        return -1

    def _push(self, way: list[int]) -> int:
        """Take what fits through a whole way; back to the start of its first full arc, which is returned."""
        least = min(self._left[arc] for arc in way)
        for arc in way:
            self._left[arc] -= least
            self._left[arc ^ 1] += least
        full = next(number for number, arc in enumerate(way) if not self._left[arc])
        here = self._ends[way[full] ^ 1]
        del way[full:]
        return here
