"""Convert between pixels and cycles: the window of cycles that a timeline shows, without any drawing."""

import math
from dataclasses import dataclass, replace

MIN_SPAN_CYCLES = 8.0
OVERSCROLL = 0.05


@dataclass(frozen=True, slots=True)
class Viewport:
    """The visible cycles and the width they are drawn at.

    start  first visible cycle, may lie between cycles
    span   visible cycles, at least MIN_SPAN_CYCLES
    width  logical pixels, at least 1
    """

    start: float = 0.0
    span: float = 1000.0
    width: float = 1000.0

    @property
    def end(self) -> float:
        """First cycle right of the window."""
        return self.start + self.span

    @property
    def cycles_per_pixel(self) -> float:
        """Cycles of one logical pixel."""
        return self.span / self.width

    def x_of(self, cycle: float) -> float:
        """Return the logical pixel of a cycle, from the left edge of the window."""
        return (cycle - self.start) * self.width / self.span

    def cycle_at(self, x: float) -> float:
        """Return the cycle under a logical pixel; may be fractional."""
        return self.start + x * self.span / self.width

    def zoomed(self, factor: float, x: float, end_cycle: int) -> "Viewport":
        """Return the window with `factor` times as many cycles; the cycle under pixel `x` stays in place."""
        anchor = self.cycle_at(x)
        span = min(max(self.span * factor, self.min_span), self.max_span(end_cycle))
        start = anchor - x / self.width * span
        return replace(self, start=start, span=span).clamped(end_cycle)

    def panned(self, pixels: float, end_cycle: int) -> "Viewport":
        """Return the window moved right by a number of pixels (left if negative)."""
        return replace(self, start=self.start + pixels * self.cycles_per_pixel).clamped(end_cycle)

    def shown(self, first: float, last: float, end_cycle: int, margin: float = 0.0) -> "Viewport":
        """Return the window that shows [first, last) with `margin` of its length free on each side."""
        span = max((last - first) * (1 + 2 * margin), self.min_span)
        start = (first + last - span) / 2
        return replace(self, start=start, span=span).clamped(end_cycle)

    def fitted(self, end_cycle: int) -> "Viewport":
        """Return the window that shows the whole run from cycle 0."""
        return replace(self, start=0.0, span=max(end_cycle * 1.02, self.min_span)).clamped(end_cycle)

    def revealed(self, cycle: float, end_cycle: int) -> "Viewport":
        """Return the window moved, at the same zoom, so that `cycle` is visible with some room around it.

        Returned unchanged if the cycle is visible already.
        """
        room = self.span * 0.1
        if self.start <= cycle <= self.end - room * 0.25:
            return self
        start = cycle - room if cycle < self.start else cycle - self.span + 3 * room
        return replace(self, start=start).clamped(end_cycle)

    def resized(self, width: float) -> "Viewport":
        """Return the same cycles at another width."""
        return replace(self, width=max(width, 1.0))

    @property
    def min_span(self) -> float:
        """Smallest span: a cycle is never wider than 96 pixels."""
        return max(MIN_SPAN_CYCLES, self.width / 96)

    def max_span(self, end_cycle: int) -> float:
        """Return the largest span: the run and some room around it."""
        return max(end_cycle * (1 + 2 * OVERSCROLL), self.min_span)

    def clamped(self, end_cycle: int) -> "Viewport":
        """Return the window limited to the run, with at most OVERSCROLL of empty room before and after it."""
        span = min(max(self.span, self.min_span), self.max_span(end_cycle))
        room = span * OVERSCROLL
        start = min(max(self.start, -room), max(end_cycle + room - span, 0.0))
        return replace(self, start=start, span=span)


def tick_step(span: float, width: float, min_pixels: float) -> int:
    """Return the smallest step of 1, 2 or 5 x 10^n cycles that is at least `min_pixels` wide."""
    wanted = max(span / max(width, 1.0) * min_pixels, 1.0)
    decade = 10 ** math.floor(math.log10(wanted))
    for factor in (1, 2, 5, 10):
        if factor * decade >= wanted * (1 - 1e-9):
            return int(factor * decade)
    return int(10 * decade)


def ticks(viewport: Viewport, step: int) -> list[int]:
    """Return the multiples of `step` inside the window, from 0 on."""
    first = max(math.ceil(viewport.start / step), 0) * step
    return list(range(first, math.floor(viewport.end) + 1, step))
