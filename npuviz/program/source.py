"""Program texts that instructions were compiled from, for listings that know them."""

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A program text.

    name      short name, unique among the files of a program ("pe.csl", "memcpy/memcpy.csl")
    path      where it was read from, "" if that is not known any more
    language  what a highlighter needs to know ("csl")
    library   whether it belongs to the tool rather than to the user
    """

    name: str
    text: str
    path: str = ""
    language: str = ""
    library: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a text: `file` indexes `HasSource.sources`, lines and columns count from 1."""

    file: int
    line: int
    column: int = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """A function or task: where its code begins. The same text compiled n times has n instructions.

    kind          "task" or "function"
    instructions  listing indices of the first instruction, rising
    """

    name: str
    kind: str
    instructions: tuple[int, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class LoopTurn:
    """A loop around an instruction: place of its head, its variable and value, the turn from 1 to `count`."""

    place: Place
    variable: str
    value: int
    turn: int
    count: int


@dataclass(frozen=True, slots=True)
class CallSite:
    """A function under way: its name, the place that runs, and the loops around it, outermost first."""

    function: str
    place: Place
    loops: tuple[LoopTurn, ...] = ()


@runtime_checkable
class HasCalls(Protocol):
    """A listing that knows through which calls and loops its program came to an instruction."""

    def calls_of(self, index: int) -> Sequence[CallSite]:
        """Functions under way, innermost first; () unknown. Raises IndexError outside the listing."""
        ...


@runtime_checkable
class HasSource(Protocol):
    """A listing that knows the texts its instructions come from."""

    @property
    def sources(self) -> Sequence[SourceFile]:
        """The texts. Cheap; the same objects all the time."""
        ...

    def place_of(self, index: int) -> Place | None:
        """Place of an instruction, None if it has none. Raises IndexError outside the listing."""
        ...

    def ranges_of_line(self, file: int, line: int) -> list[tuple[int, int]]:
        """Half-open instruction ranges of a line, rising; [] for a line without code."""
        ...

    def lines_with_code(self, file: int) -> Sequence[int]:
        """Lines of a file that instructions come from, rising."""
        ...

    @property
    def entries(self) -> Sequence[Entry]:
        """Tasks and functions, by name."""
        ...


def line_of(listing: object, instruction: int) -> str:
    """ "kernel.py:12" of an instruction, "" if that is not known."""
    if not isinstance(listing, HasSource) or not 0 <= instruction < len(cast(Sized, listing)):
        return ""
    place = listing.place_of(instruction)
    return f"{listing.sources[place.file].name}:{place.line}" if place is not None else ""


def first_of_line(listing: object, text: str) -> int:
    """First instruction of "kernel.py:12", -1 if there is none: the way back of `line_of`."""
    name, _, line = text.rpartition(":")
    if not isinstance(listing, HasSource) or not line.isdecimal():
        return -1
    for number, source in enumerate(listing.sources):
        if source.name == name and (ranges := listing.ranges_of_line(number, int(line))):
            return ranges[0][0]
    return -1
