"""What the instructions of a run read and wrote, and what made one wait for another."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from npuviz.sim.checks.order_kernels import HIGH


def accesses_of(rows: Sequence[tuple[int, ...]]) -> np.ndarray:
    """(n, 8) int64 from tuples in the order of the columns of `order_kernels`."""
    return np.array(rows, dtype=np.int64).reshape(-1, HIGH + 1)


@dataclass(frozen=True)
class MemoryTrail:
    """Steps of a run in the order in which they completed: an instruction each, or a transfer it started.

    instruction  (n,) int64 index in the listing, -1 for a step that only orders others
    thread       (n,) int64: steps of one thread begin and end in their order; one may begin before the one
                 before it has ended. -2: belongs to none, -1: only orders others
    cycle        (n,) int64: when it completed
    orders       (k, 2) int64, sorted by the second: a step, and a later one that waited for its end
    accesses     (m, 8) int64 as `accesses_of`, sorted by step
    given        (g, 8) likewise, whose step counts for nothing: bytes that have a value at the beginning
    kept         likewise: bytes that somebody reads after the end; None while the run goes on
    sizes        by memory: banks, and bytes of one
    names        by memory, for people
    unit, text   name of the unit of an instruction, and its own; line  its source line, "" if it has none
    shares       whether two steps really touch a byte in common, at least one of them writing it
    is_moved     (n,) bool: the step moves data and computes nothing
    node         (n,) int64: operator whose inputs a step reads and whose results it writes, -1: says nothing
    sources      by operator: first row (operators + 1,), operators whose results it may read; int64. None
                 at all: that is not known
    results      by name: rows as `kept` that hold an output of the program
    """

    instruction: np.ndarray
    thread: np.ndarray
    cycle: np.ndarray
    orders: np.ndarray
    accesses: np.ndarray
    given: np.ndarray
    kept: np.ndarray | None
    sizes: Sequence[tuple[int, int]]
    names: Sequence[str]
    unit: Callable[[int], str]
    text: Callable[[int], str]
    line: Callable[[int], str] = field(default=lambda index: "")
    shares: Callable[[int, int], bool] = field(default=lambda first, second: True)
    is_moved: np.ndarray = field(default_factory=lambda: np.zeros(0, np.bool_))
    node: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    sources: tuple[np.ndarray, np.ndarray] = field(
        default_factory=lambda: (np.zeros(1, np.int64), np.zeros(0, np.int64))
    )
    results: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
