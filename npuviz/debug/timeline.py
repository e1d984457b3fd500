"""Keep checkpoints, to which a session can return, in bounded memory.

There are two kinds. *Base* checkpoints lie along the run, a nearly constant simulation time apart; when they
fill the budget every second one is dropped and the spacing doubles. *Near* checkpoints are made while
going back, where people step around; they have a quarter of the budget, and the oldest is dropped first.
The checkpoint of the start is never dropped. Checkpoints contain no breakpoints.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from npuviz.sim.state import Snapshot

FIRST_SPACING_SECONDS = 0.02
"""Simulation time between base checkpoints at first, which is the most that `go_to` has to simulate again."""

LARGEST_SHARE = 0.03
"""Largest share of the simulation time that taking checkpoints may cost."""

NEAR_PART = 4
"""Near checkpoints may take one part in this many of the budget."""

OVERHEAD_BYTES = 1024
"""Memory of a checkpoint besides its words; it bounds the number of tiny checkpoints."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A snapshot kept by the timeline."""

    snapshot: Snapshot

    @property
    def cycle(self) -> int:
        """Cycle at which it was taken."""
        return self.snapshot.cycle

    @property
    def size_bytes(self) -> int:
        """Bytes of memory that it takes, shared pages not counted."""
        return self.snapshot.size_bytes + OVERHEAD_BYTES


class Timeline:
    """The checkpoints of one session, sorted by cycle.

    first         state at the beginning; kept for ever
    budget_bytes  memory for all checkpoints together; the first and one more are always kept
    """

    def __init__(self, first: Snapshot, budget_bytes: int) -> None:
        if budget_bytes <= 0:
            raise ValueError(f"checkpoint budget: expected a positive number of bytes, found {budget_bytes}")
        self._budget_bytes = budget_bytes
        self._spacing = FIRST_SPACING_SECONDS
        self._snapshot_seconds = 0.0
        self._base = [Checkpoint(first)]
        self._near: list[Checkpoint] = []
        self._all = list(self._base)

    @property
    def cycles(self) -> tuple[int, ...]:
        """Cycles of all checkpoints, rising."""
        return tuple(checkpoint.cycle for checkpoint in self._all)

    @property
    def size_bytes(self) -> int:
        """Bytes of memory that all checkpoints take."""
        return sum(checkpoint.size_bytes for checkpoint in self._all)

    @property
    def spacing_seconds(self) -> float:
        """Simulation time after which the next base checkpoint is due."""
        return max(self._spacing, self._snapshot_seconds / LARGEST_SHARE)

    @property
    def last_base_cycle(self) -> int:
        """Cycle of the newest base checkpoint."""
        return self._base[-1].cycle

    def nearest(self, cycle: int) -> Snapshot:
        """Return the newest checkpoint at or before a cycle. Raises ValueError before the first."""
        index = bisect_right(self._all, cycle, key=lambda c: c.cycle)
        return self._at(index - 1, cycle)

    def before(self, cycle: int) -> Snapshot:
        """Return the newest checkpoint strictly before a cycle. Raises ValueError if there is none."""
        index = bisect_left(self._all, cycle, key=lambda c: c.cycle)
        return self._at(index - 1, cycle)

    def add(self, snapshot: Snapshot, seconds: float) -> None:
        """Keep a base checkpoint that took `seconds` to take.
        Raises ValueError if it is not after the newest one."""
        if snapshot.cycle <= self.last_base_cycle:
            raise ValueError(f"base checkpoint at {snapshot.cycle}: not after {self.last_base_cycle}")
        # The least time so far: other work may have slowed a snapshot down.
        known = self._snapshot_seconds
        self._snapshot_seconds = min(known, seconds) if known else seconds
        self._base.append(Checkpoint(snapshot))
        budget = self._budget_bytes - self._budget_bytes // NEAR_PART
        while len(self._base) > 2 and _size(self._base) > budget:
            del self._base[1::2]
            self._spacing *= 2
        self._sort()

    def add_near(self, snapshot: Snapshot) -> None:
        """Keep a checkpoint close to the cycle at which the user is."""
        if any(checkpoint.cycle == snapshot.cycle for checkpoint in self._all):
            return
        self._near.append(Checkpoint(snapshot))
        while self._near and _size(self._near) > self._budget_bytes // NEAR_PART:
            del self._near[0]
        self._sort()

    def drop_from(self, cycle: int) -> None:
        """Forget every checkpoint at or after a cycle, except the first: history has changed."""
        self._base = self._base[:1] + [c for c in self._base[1:] if c.cycle < cycle]
        self._near = [c for c in self._near if c.cycle < cycle]
        self._sort()

    def _sort(self) -> None:
        self._all = sorted([*self._base, *self._near], key=lambda c: c.cycle)

    def _at(self, index: int, cycle: int) -> Snapshot:
        if index < 0:
            raise ValueError(f"no checkpoint before cycle {cycle}; the first is at {self._all[0].cycle}")
        return self._all[index].snapshot


def _size(checkpoints: list[Checkpoint]) -> int:
    return sum(checkpoint.size_bytes for checkpoint in checkpoints)
