"""Going back in time: whole states of memory kept now and then."""

from dataclasses import dataclass

import numpy as np

from npuviz.targets.rk3588.values.memory import Kept

KEPT_BYTES = 512 << 20
MAX_KEPT = 64

Place = tuple[int, int]
"""How far the contents are: log entries applied, edits applied."""


def is_within(place: Place, limit: Place) -> bool:
    """Whether a place is after `limit` neither in entries nor in edits."""
    return place[0] <= limit[0] and place[1] <= limit[1]


@dataclass(frozen=True, slots=True)
class ValueHazard:
    """What went wrong at a log entry: `position` is its index in the log, `task` -1 - i for host call i."""

    position: int
    task: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state at a place. hazards: those up to there."""

    place: Place
    kept: Kept
    hazards: tuple[ValueHazard, ...]


class Snapshots:
    """States in rising order of places, bounded in number and by the bytes that only they hold."""

    def __init__(self) -> None:
        self._held: list[Snapshot] = []

    def take(self, snapshot: Snapshot) -> None:
        """Keep a state; of too many every other goes."""
        if self._held and self._held[-1].place == snapshot.place:
            return
        self._held.append(snapshot)
        while len(self._held) > 1 and (len(self._held) > MAX_KEPT or self._num_bytes() > KEPT_BYTES):
            del self._held[:-1:2]

    def _num_bytes(self) -> int:
        unique: dict[int, np.ndarray] = {
            id(array): array for held in self._held for array in held.kept.arrays.values()
        }
        return sum(array.nbytes for array in unique.values())

    def best(self, limit: Place) -> Snapshot | None:
        """The last state within a place."""
        fitting = [held for held in self._held if is_within(held.place, limit)]
        return fitting[-1] if fitting else None

    def drop_after(self, limit: Place) -> None:
        """Forget the states that are not within a place."""
        self._held = [held for held in self._held if is_within(held.place, limit)]
