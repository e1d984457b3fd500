"""The one selection that all panels share."""

from dataclasses import dataclass, replace
from typing import Any

from npuviz.base.notifier import Notifier


@dataclass(frozen=True, slots=True)
class MemoryRange:
    """Bytes [address, address + size_bytes) of a memory of the machine description.

    banks  the same bytes of this many banks that follow each other
    """

    memory: int
    address: int
    size_bytes: int = 1
    banks: int = 1


@dataclass(frozen=True, slots=True)
class Selection:
    """What is picked; None means "nothing of this sort". Ids are those of description and program.

    node, tensor   graph node and tensor
    instruction    index in the listing; tile is the tile it belongs to
    unit, track    unit of the description, track of the trace
    cycles         (start, end) of the interval or measured range, half-open
    memory         a byte range
    element        (column, row) of a grid, word the identity of what travels through it
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
        """A copy with some fields replaced."""
        return replace(self, **fields)


NOTHING = Selection()


def selected(**fields: Any) -> Selection:
    """A selection of ids of which -1 stands for nothing."""
    return Selection(**{name: None if value == -1 else value for name, value in fields.items()})


class SelectionModel:
    """Holds the current selection and tells when it became a different one.

    changed  calls its listeners with the new selection; only panels' own thread may call `set`
    """

    def __init__(self) -> None:
        self._current = NOTHING
        self.changed: Notifier[Selection] = Notifier()

    @property
    def current(self) -> Selection:
        """What is selected now."""
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
