"""Define the buffer through which events leave a kernel."""

import numpy as np

from npuviz.trace.schema import EVENT_WORDS


class EventBuffer:
    """A fixed-capacity array of event rows that a machine fills and a recorder drains.

    rows   (capacity, 4) int64, owned by the buffer; layout in npuviz.trace.schema
    count  (1,) int64: rows in use; kernels advance it
    A machine stops with EVENTS_FULL at a cycle boundary when fewer rows are free than one cycle
    may need; the owner drains and calls `advance` again.
    """

    def __init__(self, capacity: int = 1 << 16) -> None:
        self.rows = np.zeros((capacity, EVENT_WORDS), dtype=np.int64)
        self.count = np.zeros(1, dtype=np.int64)

    def take(self) -> np.ndarray:
        """Return a copy of the rows in use and empty the buffer."""
        taken = self.rows[: int(self.count[0])].copy()
        self.count[0] = 0
        return taken
