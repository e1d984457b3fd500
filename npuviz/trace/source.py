"""Define what a reader reads from: a store in memory or a bundle on disk."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from npuviz.trace.schema import TraceSchema
from npuviz.trace.series import CounterView, IntervalView


class Resolver(Protocol):
    """Gives what events leave out because it follows from the instruction index."""

    def nodes_of(self, indices: np.ndarray) -> np.ndarray:
        """Return the graph node ids (int32, -1 none) of instruction indices (int64), same shape."""
        ...

    def destinations_of(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the first written operand of each instruction:
        (address int64, size_bytes int64, tensor int32)."""
        ...

    def bank_bytes(self, memory: int) -> int:
        """Return the size of one bank of a memory in bytes."""
        ...


class TraceSource(Protocol):
    """Everything recorded, by track. Views stay valid while the source grows."""

    @property
    def schema(self) -> TraceSchema:
        """Names and meaning of the rows."""
        ...

    @property
    def is_complete(self) -> bool:
        """False for the remains of a run that was killed."""
        ...

    @property
    def model(self) -> Mapping[str, Any]:
        """Description of the run: summary, notes of the program; empty for a store."""
        ...

    @property
    def end_cycle(self) -> int:
        """Cycle up to which the trace is known."""
        ...

    @property
    def num_intervals(self) -> int:
        """Number of intervals of all tracks."""
        ...

    def interval_view(self, track: int) -> IntervalView:
        """Return one interval track as it is now."""
        ...

    def last_starts(self, tracks: Sequence[int]) -> list[int]:
        """Return the start of the last interval of each of some interval tracks,
        -1 for a track without any."""
        ...

    def instructions_of(self, track: int) -> np.ndarray:
        """Return the instruction of every row of an interval track (int64, -1 none), read-only."""
        ...

    def counter_view(self, track: int) -> CounterView:
        """Return one counter track as it is now."""
        ...

    def flow_view(self) -> np.ndarray:
        """Return all flows, FLOW_DTYPE, sorted by cycle."""
        ...

    def cause_view(self) -> np.ndarray:
        """Return all causes, CAUSE_DTYPE, in the order of recording."""
        ...

    def lifetimes_within(self, memory: int, low: int, high: int) -> np.ndarray:
        """Return the lifetimes of a memory that overlap [low, high): LIFETIME_DTYPE, sorted by end."""
        ...
