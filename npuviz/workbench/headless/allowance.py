"""An allowance of processor time for work that tries one thing after another."""

import time
from collections.abc import Callable

from npuviz.base.errors import Cancelled
from npuviz.base.progress import NoProgress, Progress


class OutOfTime(Cancelled):
    """The allowance is used up."""


class Allowance:
    """Progress that also ends work whose processor time is used up.

    seconds  of the processor, counted from now over all threads of the process
    clock    returns seconds of the processor
    """

    def __init__(
        self,
        seconds: float,
        progress: Progress | None = None,
        clock: Callable[[], float] = time.process_time,
    ) -> None:
        self.seconds = seconds
        self._progress = progress or NoProgress()
        self._clock = clock
        self._begin = clock()

    def spent(self) -> float:
        """Return the seconds used until now."""
        return self._clock() - self._begin

    def goes_on(self) -> bool:
        """Return whether time is left."""
        return self.spent() < self.seconds

    def part(self, share: float) -> "Allowance":
        """Return an allowance of a share of the time that is left."""
        left = max(0.0, self.seconds - self.spent())
        return Allowance(left * share, self._progress, self._clock)

    def report(self, fraction: float, text: str = "") -> None:
        """Forward to the progress; raise OutOfTime if no time is left."""
        if not self.goes_on():
            raise OutOfTime(f"{self.seconds:.0f} s of the processor are used up")
        self.forward(fraction, text)

    def forward(self, fraction: float, text: str = "") -> None:
        """Forward to the progress, whether or not time is left."""
        self._progress.report(fraction, text)


class Steps:
    """Tells before each step of a loop whether another one fits: one as long as its longest so far.

    Loops are told apart by the share of the allowance that they may use up.
    """

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._last: dict[float, float] = {}
        self._longest: dict[float, float] = {}

    def goes_on(self, share: float) -> bool:
        """Return whether a step would end before a share (0..1) of the allowance is used up."""
        now = self._allowance.spent()
        taken = now - self._last.get(share, now)
        longest = self._longest[share] = max(taken, self._longest.get(share, 0.0))
        self._last[share] = now
        return now + longest < share * self._allowance.seconds
