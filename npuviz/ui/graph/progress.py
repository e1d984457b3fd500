"""Compute the progress of every operator at a cycle: the share of its instructions that have retired."""

from collections.abc import Mapping

import numpy as np

from npuviz.program.instruction import Listing


class GraphProgress:
    """Counts retired instructions per node from one bound per unit.

    A unit takes its instructions in rising order, so one number x for each unit ("all its instructions below
    x
    have retired") suffices. Made once per program; `fractions` costs a few array operations.
    """

    def __init__(self, listing: Listing, num_nodes: int, units: list[int]) -> None:
        self._num_nodes = num_nodes
        self._starts: dict[int, np.ndarray] = {}
        self._ends: dict[int, np.ndarray] = {}
        self._before: dict[int, np.ndarray] = {}
        for unit in units:
            table = np.array(listing.ranges_of_unit(unit), dtype=np.int64).reshape(-1, 2)
            self._starts[unit], self._ends[unit] = table[:, 0].copy(), table[:, 1].copy()
            self._before[unit] = np.concatenate([[0], np.cumsum(table[:, 1] - table[:, 0])])
        spans = [(node, *span) for node in range(num_nodes) for span in listing.ranges_of_node(node)]
        table = np.array(spans, dtype=np.int64).reshape(-1, 3)
        self._node, self._first, self._end = table[:, 0], table[:, 1], table[:, 2]
        self._below_first = {unit: self._count(unit, self._first) for unit in units}
        self._below_end = {unit: self._count(unit, self._end) for unit in units}
        self.total = np.zeros(num_nodes, dtype=np.int64)
        for unit in units:
            np.add.at(self.total, self._node, self._below_end[unit] - self._below_first[unit])

    def retired(self, bounds: Mapping[int, int]) -> np.ndarray:
        """Return the retired instructions of each node, (nodes,) int64; a unit without bound has retired
        none.
        """
        done = np.zeros(self._num_nodes, dtype=np.int64)
        for unit, bound in bounds.items():
            if unit not in self._starts:
                continue
            below = int(self._count(unit, np.array([bound], dtype=np.int64))[0])
            low, high = self._below_first[unit], self._below_end[unit]
            np.add.at(done, self._node, np.minimum(high, below) - np.minimum(low, below))
        return done

    def fractions(self, bounds: Mapping[int, int], leader: np.ndarray | None = None) -> np.ndarray:
        """Return the progress of each node, (nodes,) float32 in 0..1; -1 for nodes without instructions.

        leader  (nodes,) the node whose box is drawn for each, which gets the progress of its whole group
        """
        done, total = self.retired(bounds), self.total
        if leader is not None:
            done, total = (np.bincount(leader, each, self._num_nodes) for each in (done, total))
        return np.where(total > 0, done / np.maximum(1, total), -1.0).astype(np.float32)

    def _count(self, unit: int, index: np.ndarray) -> np.ndarray:
        """Count the instructions of a unit below each index."""
        starts, ends, before = self._starts[unit], self._ends[unit], self._before[unit]
        if not len(starts):
            return np.zeros(len(index), dtype=np.int64)
        part = np.searchsorted(starts, index, side="right") - 1
        inside = np.minimum(index, ends[np.maximum(part, 0)]) - starts[np.maximum(part, 0)]
        return np.where(part < 0, 0, before[np.maximum(part, 0)] + inside)
