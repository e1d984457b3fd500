"""Compute smallest, mean and largest number of a memory range in the background."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QObject, Signal

from npuviz.program.dtypes import numpy_dtype
from npuviz.ui.bridge.latest_job import LatestJob
from npuviz.ui.bridge.still_answers import PATIENCE_SECONDS

MAX_BYTES = 64 << 20
"""Ranges larger than this get no statistics."""
CHUNK_ITEMS = 1 << 16
"""Numbers converted at a time: as float64 they fit a processor's cache."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of a range; NaN and infinities are only counted in `num_not_finite`."""

    count: int
    low: float
    mean: float
    high: float
    num_not_finite: int


def statistics_of(pieces: Sequence[bytes], dtype: str) -> Statistics | None:
    """Return the statistics of the complete items in some pieces of bytes; None without any.

    dtype  a name of npuviz.program.dtypes
    """
    kind = numpy_dtype(dtype)
    count, num_finite, total, low, high = 0, 0, 0.0, np.inf, -np.inf
    for piece in pieces:
        values = np.frombuffer(piece, kind, len(piece) // kind.itemsize)
        count += len(values)
        for start in range(0, len(values), CHUNK_ITEMS):
            with np.errstate(invalid="ignore"):  # any bytes may be looked at: signalling NaN among them
                chunk = values[start : start + CHUNK_ITEMS].astype(np.float64)
            finite = np.isfinite(chunk)
            chunk = chunk if finite.all() else chunk[finite]
            if len(chunk):
                num_finite += len(chunk)
                total += float(chunk.sum())
                low, high = min(low, float(chunk.min())), max(high, float(chunk.max()))
    if not count:
        return None
    if not num_finite:
        return Statistics(count, np.nan, np.nan, np.nan, count)
    return Statistics(count, low, total / num_finite, high, count - num_finite)


class RangeStatistics(QObject):
    """Computes statistics of the range last asked for, in another thread if that takes long.

    found  the statistics last asked for have arrived
    """

    found = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._about: tuple[object, tuple[object, ...]] | None = None
        self._job = LatestJob(self)
        self._job.finished.connect(self.found)

    @property
    def is_waiting(self) -> bool:
        """Whether `found` is still to come."""
        return self._job.is_waiting

    def of(
        self, source: object, place: tuple[object, ...], pieces: Sequence[bytes], dtype: str
    ) -> Statistics | None:
        """Return the statistics of some bytes; None if they hold no number, or while they are computed.

        source, place  identify the bytes: with the same source and an equal place the last result is reused
        """
        about = (source, (*place, dtype))
        if self._about is None or self._about[0] is not source or self._about[1] != about[1]:
            self._about = about
            self._job.ask(lambda: statistics_of(pieces, dtype), PATIENCE_SECONDS)
        return None if self._job.is_waiting else self._job.answer()

    def forget(self) -> None:
        """Discard the statistics."""
        self._about = None
        self._job.drop()
