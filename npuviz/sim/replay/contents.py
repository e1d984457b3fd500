"""What a target says about its memories so that they can be replayed."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Place = tuple[int, int]
"""How far contents are: log entries applied, edits applied."""

Report = Callable[[str, str], None]
"""Takes the kind and the text of what went wrong at the entry that is being applied."""


def is_within(place: Place, limit: Place) -> bool:
    """Whether a place is after `limit` neither in entries nor in edits."""
    return place[0] <= limit[0] and place[1] <= limit[1]


@dataclass(frozen=True, slots=True)
class Edit:
    """Bytes written by hand when `position` log entries had been applied.

    memory   id of the machine's description; address  linear byte address in it
    """

    position: int
    memory: int
    address: int
    data: bytes


@dataclass(frozen=True, slots=True)
class EditImage:
    """What snapshots share beside words: bytes written by hand, each at its place in the log."""

    edits: tuple[Edit, ...] = ()

    def digest(self) -> str:
        """Covers everything in the image."""
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
    """How to take one step back, and the memory that knowing it takes."""

    back: Callable[[], None]
    num_bytes: int


class KeptState(Protocol):
    """A whole state that does not change any more."""

    def arrays(self) -> Iterable[np.ndarray]:
        """What it holds; states may share arrays."""
        ...


class Contents(Protocol):
    """All memories of a machine, at one place. A log entry means what the target says."""

    def apply(self, entry: int, undoable: bool) -> Undo | None:
        """Do what a log entry does. What goes wrong is reported, never raised.

        Returns how to undo it, None where nothing changed or nobody wants to know.
        """
        ...

    def apply_edit(self, edit: Edit, undoable: bool) -> Undo | None:
        """Write bytes by hand; as `apply`."""
        ...

    def keep(self) -> Any:
        """The present state, a KeptState."""
        ...

    def restore(self, kept: Any) -> None:
        """Return to a state of `keep`; None: to the beginning."""
        ...
