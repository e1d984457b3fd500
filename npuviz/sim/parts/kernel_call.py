"""One call of an `advance` kernel: its transient words made from stop rows and an event buffer."""

import numpy as np

from npuviz.base.errors import SimulationError
from npuviz.sim.events import EventBuffer
from npuviz.sim.parts import watch_kernels as wk

NO_EVENTS = np.zeros(0, dtype=np.int64)


class KernelCall:
    """The transient words `x` and event rows of one call, in the layout of watch_kernels.

    x     (words,) int64, changed by the kernel; rows  (n * 4,) int64 event rows, a view of the buffer
    margin  event rows one cycle may need; a smaller buffer is a SimulationError
    """

    def __init__(self, until: int, stops: np.ndarray, events: EventBuffer | None, margin: int) -> None:
        x = np.zeros(wk.X_ROWS + len(stops) * (wk.STOP_WORDS + 1), dtype=np.int64)
        x[wk.X_UNTIL] = until
        x[wk.X_STOPS] = len(stops)
        x[wk.X_ROWS : wk.X_ROWS + stops.size] = stops.reshape(-1)
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

    def finish(self) -> np.ndarray:
        """Tell the buffer how many rows there are; returns one hit word per stop row."""
        if self._events is not None:
            if self.x[wk.X_EVENTS] > len(self._events.rows):
                raise SimulationError(f"one cycle needed more than {self._margin} event rows")
            self._events.count[0] = self.x[wk.X_EVENTS]
        return self.x[wk.X_ROWS + self._num_words :]
