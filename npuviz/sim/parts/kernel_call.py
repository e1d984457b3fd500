"""Make one call of an `advance` kernel: its transient words, from stop rows and an event buffer."""

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from npuviz.base.errors import SimulationError
from npuviz.base.kernels.entries import waits
from npuviz.base.kernels.uncompiled import add_uncompiled
from npuviz.base.progress import Progress
from npuviz.sim.events import EventBuffer
from npuviz.sim.parts import watch_kernels as wk

X_FILTERS, X_LOW, X_HIGH = wk.CALL.filters, wk.CALL.low, wk.CALL.high
ALL_BITS = (1 << wk.FILTER_BITS) - 1
NO_EVENTS = np.zeros(0, dtype=np.int64)
CYCLE_WORD = 0
"""Word of every root state that holds the cycle: the first one of CHIP or WAFER."""
RESULT_UNTIL = 0
"""Result of every `advance` that has reached the cycle it was to run to."""
SLICE_SECONDS = 0.05
"""Target duration of one call while the kernel runs uncompiled:
after each call the compiled code may be ready."""
FIRST_SLICE_CYCLES = 64


def prepare(kernel: Any, progress: Progress) -> None:
    """Load the code of a kernel, or have it compiled."""
    if waits():
        progress.report(-1.0, "compiling kernels (first run only)")
    kernel.prepare()


@lru_cache(maxsize=64)
def filters_of(rows: bytes) -> tuple[np.ndarray, int, int]:
    """Summarise stop rows, given as bytes: (NUM_TESTS,) int64 words CALL.filters,
    then CALL.low and CALL.high.

    A set bit means that a row may hit for subjects with this number modulo 64, a clear one that none can.
    The filters belong to the cache and must not be changed. A run passes the same rows again and again.
    """
    found = [0] * wk.NUM_TESTS
    spans: list[tuple[int, int]] = []
    for test, subject, low, high, *_ in (
        np.frombuffer(rows, dtype=np.int64).reshape(-1, wk.STOP_WORDS).tolist()
    ):
        if not 0 <= test < wk.NUM_TESTS:
            continue
        if test in (wk.STOP_MEMORY_READ, wk.STOP_MEMORY_WRITE):
            spans.append((low, high))
        first, last = (low, high - 1) if test == wk.STOP_INSTRUCTION else (subject, subject)
        if subject < 0 or last - first >= wk.FILTER_BITS:
            found[test] = ALL_BITS
        else:
            for each in range(first, last + 1):
                found[test] |= 1 << (each % wk.FILTER_BITS)
    lowest = min((low for low, _ in spans), default=0)
    return (
        np.array(found, dtype=np.uint64).view(np.int64),
        lowest,
        max((high for _, high in spans), default=0),
    )


class KernelCall:
    """The transient words `x` and event rows of one call, laid out as in watch_kernels.

    x     (words,) int64, changed by the kernel; rows  (n * 4,) int64 event rows, a view of the buffer
    margin  event rows that one cycle may need; a smaller buffer raises SimulationError
    """

    def __init__(self, until: int, stops: np.ndarray, events: EventBuffer | None, margin: int) -> None:
        x = np.zeros(wk.X_ROWS + len(stops) * (wk.STOP_WORDS + 1), dtype=np.int64)
        x[wk.X_UNTIL] = until
        x[wk.X_STOPS] = len(stops)
        x[wk.X_ROWS : wk.X_ROWS + stops.size] = stops.reshape(-1)
        if len(stops):
            filters, x[X_LOW], x[X_HIGH] = filters_of(stops.tobytes())
            x[X_FILTERS : X_FILTERS + wk.NUM_TESTS] = filters
        rows = NO_EVENTS
        if events is not None:
            rows = events.rows.reshape(-1)
            x[wk.X_EVENTS] = events.count[0]
            x[wk.X_CAPACITY] = len(events.rows)
            if len(events.rows) < margin:
                raise SimulationError(
                    f"an event buffer of {len(events.rows)} rows; one cycle may need {margin}"
                )
        self.x = x
        self.rows = rows
        self._events = events
        self._margin = margin
        self._num_words = stops.size

    def run(
        self,
        kernel: Any,
        state: np.ndarray,
        *more: Any,
        may_cut: bool = True,
        may_be_plain: bool = True,
        together: Callable[[Any], int] | None = None,
    ) -> int:
        """Call kernel(state, *more); while it is not compiled,
        call it for short slices of cycles if it `may_cut`.

        may_be_plain  False waits for the compiled code, unless the package brought shipped code
        together  function that calls the compiled kernel instead, for example in several threads
        """
        if not may_be_plain and not kernel.has_shipped(state, *more):
            begin = time.perf_counter()
            kernel.await_ready(state, *more)
            add_uncompiled(time.perf_counter() - begin)
        until, size = int(self.x[wk.X_UNTIL]), FIRST_SLICE_CYCLES
        while not kernel.is_ready(state, *more):
            goal = min(until, int(state[CYCLE_WORD]) + size) if may_cut else until
            self.x[wk.X_UNTIL] = goal
            begin = time.perf_counter()
            result = int(kernel.run_at_once(state, *more))
            seconds = time.perf_counter() - begin
            if not kernel.has_shipped(state, *more):
                add_uncompiled(seconds)
            is_whole = goal == until or result != RESULT_UNTIL
            if is_whole or self.x[wk.X_HITS] or self.x[wk.X_UNTIL] != goal:
                if self.x[wk.X_UNTIL] == goal:
                    self.x[wk.X_UNTIL] = until
                return result
            size = 2 * size if seconds < SLICE_SECONDS else max(size // 2, 1)
        self.x[wk.X_UNTIL] = until
        return together(kernel) if together else int(kernel(state, *more))

    def finish(self) -> np.ndarray:
        """Store the number of rows in the event buffer; return one hit word for each stop row."""
        if self._events is not None:
            if self.x[wk.X_EVENTS] > len(self._events.rows):
                raise SimulationError(f"one cycle needed more than {self._margin} event rows")
            self._events.count[0] = self.x[wk.X_EVENTS]
        return self.x[wk.X_ROWS + self._num_words :]
