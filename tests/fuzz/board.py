"""What a worker counts, in a file both processes map: it is there when the worker has crashed."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

INPUTS, TAKEN, ERRORS, CANCELLED, LEAKS, HANGS, CRASHES, SECONDS, BYTES = range(9)
NUM_COLUMNS = 9
_NOW, _STOP = 0, 1
_BEGAN, _FAMILY, _NUMBER = 0, 1, 2


@dataclass(frozen=True)
class Board:
    """rows: two of the worker's state, then one for each family: counts, worst seconds and worst bytes."""

    rows: np.ndarray

    @classmethod
    def at(cls, path: Path, num_families: int) -> "Board":
        """The board of a file, made if it is not there."""
        shape = (num_families + 2, NUM_COLUMNS)
        mode = "r+" if path.exists() else "w+"
        return cls(np.memmap(path, np.float64, mode, shape=shape))

    def of(self, family: int) -> np.ndarray:
        """The counts of a family."""
        return self.rows[family + 2]

    @property
    def counts(self) -> np.ndarray:
        """The counts of all families."""
        return self.rows[2:]

    def begin(self, family: int, number: int, processor_seconds: float) -> None:
        """An attempt begins, when the worker has used so much time."""
        now = self.rows[_NOW]
        now[_FAMILY], now[_NUMBER], now[_BEGAN] = family, number, processor_seconds

    def end(self) -> None:
        """No attempt is under way."""
        self.rows[_NOW, _BEGAN] = -1.0

    @property
    def began(self) -> float:
        """Processor time at which the attempt under way began, below 0 when there is none."""
        return float(self.rows[_NOW, _BEGAN])

    @property
    def attempt(self) -> tuple[int, int]:
        """Family and number of the last attempt that began."""
        return int(self.rows[_NOW, _FAMILY]), int(self.rows[_NOW, _NUMBER])

    def stop(self) -> None:
        """Ask the worker to end."""
        self.rows[_STOP, 0] = 1.0

    @property
    def is_stopped(self) -> bool:
        """Whether the worker is asked to end."""
        return bool(self.rows[_STOP, 0])
