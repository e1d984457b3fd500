"""What a reader reads from: a store in memory or a bundle on disk."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from npuviz.trace.schema import TraceSchema
from npuviz.trace.series import CounterView, IntervalView


class Resolver(Protocol):
    """Answers what events leave out, because it follows from the instruction index."""

    def nodes_of(self, indices: np.ndarray) -> np.ndarray:
        """Graph node ids (int32, -1 none) of instruction indices (int64), same shape."""
        ...

    def destinations_of(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """First written operand of each instruction: (address int64, size_bytes int64, tensor int32)."""
        ...

    def bank_bytes(self, memory: int) -> int:
        """Bytes of one bank of a memory."""
        ...


class TraceSource(Protocol):
    """Everything recorded, by track. Views stay right while the source grows."""

    @property
    def schema(self) -> TraceSchema:
        """What the rows mean."""
        ...

    @property
    def is_complete(self) -> bool:
        """False for the remains of a run that was killed."""
        ...

    @property
    def model(self) -> Mapping[str, Any]:
        """What describes the run: summary, notes of the program; empty for a store."""
        ...

    @property
    def end_cycle(self) -> int:
        """Cycle up to which the trace is known."""
        ...

    @property
    def num_intervals(self) -> int:
        """Intervals of all tracks."""
        ...

    def interval_view(self, track: int) -> IntervalView:
        """One interval track as it is now."""
        ...

    def last_starts(self, tracks: Sequence[int]) -> list[int]:
        """Start of the last interval of each of some interval tracks, -1 where there is none."""
        ...

    def instructions_of(self, track: int) -> np.ndarray:
        """Instruction of every row of an interval track (int64, -1 none), read-only."""
        ...

    def counter_view(self, track: int) -> CounterView:
        """One counter track as it is now."""
        ...

    def flow_view(self) -> np.ndarray:
        """All flows, FLOW_DTYPE, sorted by cycle."""
        ...

    def cause_view(self) -> np.ndarray:
        """All causes, CAUSE_DTYPE, in the order of recording."""
        ...

    def lifetimes_within(self, memory: int, low: int, high: int) -> np.ndarray:
        """Lifetimes of a memory that overlap [low, high): LIFETIME_DTYPE, in order of their end."""
        ...
