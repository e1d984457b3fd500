"""The one selection that all panels share."""

from dataclasses import dataclass, replace
from typing import Any

from npuviz.base.notifier import Notifier


@dataclass(frozen=True, slots=True)
class MemoryRange:
    """Bytes [address, address + size_bytes) of a memory, given by its id in the machine description.

    banks  the range covers the same bytes of this many consecutive banks
    """

    memory: int
    address: int
    size_bytes: int = 1
    banks: int = 1


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected things; None means "nothing of this sort". Ids are those of description and program.

    node, tensor   graph node and tensor
    instruction    index in the listing; tile is the tile it belongs to
    unit, track    unit of the description, track of the trace
    cycles         (start, end) of the interval or measured range, half-open
    memory         a byte range
    element        (column, row) of a grid; word  id of a word that travels through it
    """

    node: int | None = None
    instruction: int | None = None
    tile: int | None = None
    tensor: int | None = None
    unit: int | None = None
    track: int | None = None
    cycles: tuple[int, int] | None = None
    memory: MemoryRange | None = None
    element: tuple[int, int] | None = None
    word: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is selected."""
        return self == NOTHING

    def with_fields(self, **fields: Any) -> "Selection":
        """Return a copy with some fields replaced."""
        return replace(self, **fields)


NOTHING = Selection()


def selected(**fields: Any) -> Selection:
    """Make a selection from ids of which -1 stands for None."""
    return Selection(**{name: None if value == -1 else value for name, value in fields.items()})


class SelectionModel:
    """Holds the current selection and notifies when it changes.

    changed  notifies with the new selection; `set` may be called in the thread of the panels only
    """

    def __init__(self) -> None:
        self._current = NOTHING
        self.changed: Notifier[Selection] = Notifier()

    @property
    def current(self) -> Selection:
        """The current selection."""
        return self._current

    def set(self, selection: Selection) -> None:
        """Select; does nothing when the selection is equal to the current one."""
        if selection == self._current:
            return
        self._current = selection
        self.changed.notify(selection)

    def clear(self) -> None:
        """Select nothing."""
        self.set(NOTHING)
