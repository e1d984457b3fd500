"""Stop rows of the toy machine: which breakpoints hit in one cycle."""

import numpy as np

from npuviz.sim.stop import (
    CMP_EQ,
    CMP_GE,
    CMP_GT,
    CMP_LE,
    CMP_LT,
    STOP_INSTRUCTION,
    STOP_QUEUE,
)


class Watching:
    """Collects the breakpoint ids that hit; one object a cycle."""

    def __init__(self, stops: np.ndarray) -> None:
        self._rows: list[list[int]] = stops.tolist()
        self.hits: set[int] = set()

    def instruction(self, index: int) -> None:
        """An instruction starts."""
        for test, _, low, high, _, breakpoint_id in self._rows:
            if test == STOP_INSTRUCTION and low <= index < high:
                self.hits.add(breakpoint_id)

    def node(self, wanted: int, node: int) -> None:
        """A node starts or ends."""
        for test, subject, _, _, _, breakpoint_id in self._rows:
            if test == wanted and subject == node:
                self.hits.add(breakpoint_id)

    def memory(self, wanted: int, memory: int, address: int, size_bytes: int) -> None:
        """Bytes are read or written."""
        for test, subject, low, high, _, breakpoint_id in self._rows:
            if test == wanted and subject == memory and address < high and low < address + size_bytes:
                self.hits.add(breakpoint_id)

    def queues(self, before: list[int], after: list[int]) -> None:
        """Occupancies at the two ends of the cycle."""
        for test, subject, low, _, comparison, breakpoint_id in self._rows:
            if test == STOP_QUEUE:
                became = compare(after[subject], comparison, low)
                if became and not compare(before[subject], comparison, low):
                    self.hits.add(breakpoint_id)


def compare(value: int, comparison: int, bound: int) -> bool:
    """A comparison of npuviz.sim.stop."""
    results = {
        CMP_GE: value >= bound,
        CMP_GT: value > bound,
        CMP_LE: value <= bound,
        CMP_LT: value < bound,
        CMP_EQ: value == bound,
    }
    return results.get(comparison, value != bound)
