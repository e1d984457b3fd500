"""Define what a target implements so that the contents of its memories can be replayed."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Place = tuple[int, int]
"""How far contents have come: log entries applied, edits applied."""

Report = Callable[[str, str], None]
"""Function that takes the kind and the text of what went wrong at the entry being applied."""


def is_within(place: Place, limit: Place) -> bool:
    """Whether a place is not beyond `limit`, neither in entries nor in edits."""
    return place[0] <= limit[0] and place[1] <= limit[1]


@dataclass(frozen=True, slots=True)
class Edit:
    """Bytes written by hand after `position` log entries had been applied.

    memory   id in the machine's description; address  linear byte address in it
    """

    position: int
    memory: int
    address: int
    data: bytes


@dataclass(frozen=True, slots=True)
class EditImage:
    """The image of a snapshot (see npuviz.sim.state): bytes written by hand, each at its place in the log."""

    edits: tuple[Edit, ...] = ()

    def digest(self) -> str:
        """Return a digest of all edits, "" without any."""
        return hashlib.blake2b(repr(self.edits).encode(), digest_size=8).hexdigest() if self.edits else ""


@dataclass(frozen=True, slots=True)
class ValueHazard:
    """What went wrong at a log entry: `position` is its index in the log."""

    position: int
    entry: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Undo:
    """A function that takes one step back, and the bytes that it keeps for that."""

    back: Callable[[], None]
    num_bytes: int


class KeptState(Protocol):
    """A whole state that does not change any more."""

    def arrays(self) -> Iterable[np.ndarray]:
        """Return the arrays that it holds; states may share arrays."""
        ...


class Contents(Protocol):
    """All memories of a machine at one place of the log. The target defines what a log entry means."""

    def apply(self, entry: int, undoable: bool) -> Undo | None:
        """Apply a log entry. What goes wrong is reported by a `Report`, never raised.

        Returns how to undo it, None if nothing changed or `undoable` is False.
        """
        ...

    def apply_edit(self, edit: Edit, undoable: bool) -> Undo | None:
        """Write bytes by hand. Returns as `apply`."""
        ...

    def keep(self) -> Any:
        """Return the present state as a KeptState."""
        ...

    def restore(self, kept: Any) -> None:
        """Return to a state of `keep`, or to the beginning for None."""
        ...
