"""Describe what the steps of a run read and wrote, and which steps waited for which."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from npuviz.sim.checks.order_kernels import HIGH


def accesses_of(rows: Sequence[tuple[int, ...]]) -> np.ndarray:
    """Return (n, 8) int64 accesses from tuples in the order of the columns of `order_kernels`."""
    return np.array(rows, dtype=np.int64).reshape(-1, HIGH + 1)


@dataclass(frozen=True)
class MemoryTrail:
    """Steps of a run in the order in which they completed:
    each an instruction, or a transfer that it started.

    instruction  (n,) int64 index in the listing, -1 for a step that only orders others
    thread       (n,) int64: steps of one thread begin in order and end in order; one may begin before the one
                 before it has ended. -2: of no thread, -1: only orders others
    cycle        (n,) int64: when it completed
    orders       (k, 2) int64, sorted by the second: a step, and a later one that waited for its end
    accesses     (m, 8) int64 as `accesses_of`, sorted by step
    given        (g, 8) likewise, the step is ignored: bytes that have a value at the beginning
    kept         likewise: bytes that are read after the end; None while the run goes on
    sizes        by memory: banks, and bytes of one
    names        by memory, for people
    unit, text   return an instruction's unit name and its text; line  returns its source line, "" for none
    shares       returns whether two steps touch a common byte that at least one of them writes
    is_moved     (n,) bool: the step moves data and computes nothing
    node         (n,) int64: operator whose inputs a step reads and whose results it writes, -1: unknown
    sources      by operator: first row (operators + 1,), operators whose results it may read; int64.
                 No rows at all: unknown
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
