"""Describe the program texts that instructions were compiled from, for listings that know them."""

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A program text.

    name      short name, unique among the files of a program ("pe.csl", "memcpy/memcpy.csl")
    path      path from which it was read, "" if unknown
    language  its name for a syntax highlighter ("csl")
    library   whether it is a file of the tool, not of the user
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
    """A function or task in a text. A text that was compiled n times has n first instructions.

    kind          "task" or "function"
    instructions  listing indices of the first instruction, rising
    """

    name: str
    kind: str
    instructions: tuple[int, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class LoopTurn:
    """One turn of a loop around an instruction: the loop's place, its variable and value,
    the turn from 1 to `count`."""

    place: Place
    variable: str
    value: int
    turn: int
    count: int


@dataclass(frozen=True, slots=True)
class CallSite:
    """A function that is being executed: its name, the place reached in it,
    and the loops around that, outermost first."""

    function: str
    place: Place
    loops: tuple[LoopTurn, ...] = ()


@runtime_checkable
class HasCalls(Protocol):
    """A listing that knows the calls and loops through which the program reached an instruction."""

    def calls_of(self, index: int) -> Sequence[CallSite]:
        """Return the active functions, innermost first; () if unknown.
        Raises IndexError outside the listing."""
        ...


@runtime_checkable
class HasSource(Protocol):
    """A listing that knows the texts its instructions come from."""

    @property
    def sources(self) -> Sequence[SourceFile]:
        """The texts. Cheap to read; the same objects at every access."""
        ...

    def place_of(self, index: int) -> Place | None:
        """Return the place of an instruction, None if it has none. Raises IndexError outside the listing."""
        ...

    def ranges_of_line(self, file: int, line: int) -> list[tuple[int, int]]:
        """Return the half-open instruction ranges of a line, rising; [] for a line without code."""
        ...

    def lines_with_code(self, file: int) -> Sequence[int]:
        """Return the lines of a file that have instructions, rising."""
        ...

    @property
    def entries(self) -> Sequence[Entry]:
        """Tasks and functions, sorted by name."""
        ...


def line_of(listing: object, instruction: int) -> str:
    """Return the file and line of an instruction as "kernel.py:12", "" if they are not known."""
    if not isinstance(listing, HasSource) or not 0 <= instruction < len(cast(Sized, listing)):
        return ""
    place = listing.place_of(instruction)
    return f"{listing.sources[place.file].name}:{place.line}" if place is not None else ""


def first_of_line(listing: object, text: str) -> int:
    """Return the first instruction of "kernel.py:12", -1 if there is none: the inverse of `line_of`."""
    name, _, line = text.rpartition(":")
    if not isinstance(listing, HasSource) or not line.isdecimal():
        return -1
    for number, source in enumerate(listing.sources):
        if source.name == name and (ranges := listing.ranges_of_line(number, int(line))):
            return ranges[0][0]
    return -1
