"""Keep whole states now and then, sorted by place."""

from dataclasses import dataclass

import numpy as np

from npuviz.sim.replay.contents import KeptState, Place, ValueHazard, is_within


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state at a place. hazards  those up to that place"""

    place: Place
    state: KeptState
    hazards: tuple[ValueHazard, ...]


class Snapshots:
    """States sorted by place, limited in number and by the bytes of their arrays, each array counted once."""

    def __init__(self, count: int, num_bytes: int) -> None:
        self._count = count
        self._limit = num_bytes
        self._held: list[Snapshot] = []

    def take(self, snapshot: Snapshot) -> None:
        """Keep a state; if there are too many, drop every other one."""
        held = self._held
        if any(other.place == snapshot.place for other in held):
            return
        held.append(snapshot)
        held.sort(key=lambda other: other.place)
        while len(held) > 1 and (len(held) > self._count or self._num_bytes() > self._limit):
            del held[:-1:2]

    def _num_bytes(self) -> int:
        unique: dict[int, np.ndarray] = {
            id(array): array for held in self._held for array in held.state.arrays()
        }
        return sum(array.nbytes for array in unique.values())

    def best(self, limit: Place) -> Snapshot | None:
        """Return the last state that is not beyond a place, None if there is none."""
        fitting = [held for held in self._held if is_within(held.place, limit)]
        return fitting[-1] if fitting else None

    def drop_after(self, limit: Place) -> None:
        """Forget the states that are beyond a place."""
        self._held = [held for held in self._held if is_within(held.place, limit)]
