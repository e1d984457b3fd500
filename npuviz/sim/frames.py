"""Describe the call stack of a processing element: calls and their variables, innermost first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class FrameVariable:
    """A variable and its value now.

    type     as the program writes it ("[4]f32")
    value    value as text ("[1.5 2 0 0]"); "" while it has none
    address  byte address in the element's memory, -1 for one in a register
    memory, where  the memory if it is not the element's own, else -1; the place as text
    banks    banks of that memory over which it is spread
    """

    name: str
    type: str
    value: str
    address: int = -1
    size_bytes: int = 0
    memory: int = -1
    where: str = ""
    banks: int = 1


@dataclass(frozen=True, slots=True)
class Frame:
    """A call on the stack of an element.

    instruction  the instruction that the function started last; in an outer frame, its call
    kind         "task" or "function"
    note         what else is to be said of it: the iterations of its loops
    """

    name: str
    kind: str
    instruction: int
    variables: tuple[FrameVariable, ...] = ()
    note: str = ""


@runtime_checkable
class HasFrames(Protocol):
    """A machine whose elements call functions. Elements are numbered row * columns +
    column over the whole grid."""

    def frames(self, element: int) -> Sequence[Frame]:
        """Return the active calls, innermost first; () while the element runs nothing."""
        ...

    def globals_of(self, element: int) -> Sequence[FrameVariable]:
        """Return the global variables of the element's program by name; () without a program."""
        ...
