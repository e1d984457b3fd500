"""Program texts that instructions were compiled from, for listings that know them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


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
