"""Define the contract of a fabric: processing elements on a grid whose routers pass small
words to each other.

A machine implements `HasFabric`, and those of the other protocols that fit: a network of packets has
loads but perhaps no colors, a grid of arrays has states but no words in flight. Nothing is kept for the
window: every answer is computed when asked, for the area asked for, so a machine may have a million
elements of which a screen shows forty.

Places are (column, row), row 0 at the top (north). All arrays are fresh; the caller owns them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from npuviz.program.instruction import DetailTable

RAMP, NORTH, EAST, SOUTH, WEST = range(5)
"""Ports of a router. RAMP connects it with its own element's processor."""
NUM_PORTS = 5
PORT_NAMES = ("RAMP", "NORTH", "EAST", "SOUTH", "WEST")
PORT_STEPS = ((0, 0), (0, -1), (1, 0), (0, 1), (-1, 0))
"""Port -> step (columns, rows) to the router at its other end."""
INJECT = 5
"""Value of `WORD_DTYPE.port` for a word on its way from the processor into its own router."""
FULL = 255
"""Largest value of shares and fill levels, which are bytes: 0 is nothing, FULL is all."""


class Area(NamedTuple):
    """A rectangle of the grid: elements with column <= c < column + columns, and rows likewise."""

    column: int
    row: int
    columns: int
    rows: int


@dataclass(frozen=True, slots=True)
class ElementState:
    """A state an element can be in: a word for people, and the role that colours it.

    role  colour role of the theme: "compute", "idle", "control", "wait-empty" (waits for data),
          "wait-queue" (held back by a full queue ahead), "hazard" (fault), "finished", "off", ...
    """

    name: str
    role: str


@dataclass(frozen=True, slots=True)
class FabricColor:
    """A route through the fabric (a virtual channel) that the program uses: its number and its name."""

    id: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class FabricShape:
    """Properties of a fabric that do not change during a run.

    columns, rows   size of the grid
    program         the area that runs the program; the elements around it serve the host
    states          legend of `element_states`, whose codes are indices into it
    colors          colors in use, by id; () where the network has none
    load_cycles     `link_loads` covers this many cycles up to now; 0: all since the start
    element, word   names for a grid place ("PE", "router") and for what travels ("flit")
    hop_cycles      fewest cycles of a word to the next router, for the legend; 0 unknown
    """

    columns: int
    rows: int
    program: Area
    states: tuple[ElementState, ...]
    colors: tuple[FabricColor, ...] = ()
    load_cycles: int = 0
    element: str = "PE"
    word: str = "word"
    hop_cycles: float = 0.0

    @property
    def whole(self) -> Area:
        """The whole grid."""
        return Area(0, 0, self.columns, self.rows)

    def label(self, column: int, row: int) -> str:
        """Return the name of a place, counted from the corner of the program's area."""
        return f"{self.element}({column - self.program.column},{row - self.program.row})"


class Level(NamedTuple):
    """A queue of an element: entries in it, and entries that fit (0: no limit)."""

    name: str
    entries: int
    capacity: int
    color: int = -1


class Glance(NamedTuple):
    """A short description of an element that fits into its drawing.

    task    name of the task that runs now ("recv_task"), "" for none
    detail  why the element waits, or what it does, in a few words
    """

    state: int
    task: str = ""
    detail: str = ""
    levels: tuple[Level, ...] = ()


@runtime_checkable
class HasFabric(Protocol):
    """A machine whose elements lie on a grid and are joined by links."""

    @property
    def fabric(self) -> FabricShape:
        """Size, legend and words. Cheap to read; the same object at every access."""
        ...

    def element_states(self, area: Area) -> np.ndarray:
        """Return the state of every element now, (rows, columns) uint8: indices into `FabricShape.states`."""
        ...

    def link_loads(self, area: Area) -> np.ndarray:
        """Return which share of the last `load_cycles` each output was busy, (rows, columns,
        NUM_PORTS) uint8."""
        ...


@runtime_checkable
class HasElements(Protocol):
    """A fabric that shows each element in detail."""

    def glances(self, area: Area) -> Mapping[tuple[int, int], Glance]:
        """Describe what the elements of an area do now, by their (column, row)."""
        ...

    def element_details(self, column: int, row: int) -> Sequence[DetailTable]:
        """Return all details of one element now: tasks, queues, registers, switches, variables.

        The columns are usually Name, Value, Type; variables have a table of their own.
        """
        ...

    def units_of_element(self, column: int, row: int) -> tuple[int, ...]:
        """Return the units of the description that belong to an element;
        () if none do (it is not watched)."""
        ...

    def element_of_unit(self, unit: int) -> tuple[int, int] | None:
        """Return (column, row) of the element that a unit belongs to, or None."""
        ...


def glance_at(machine: HasElements, column: int, row: int) -> Glance:
    """Describe what one element does now."""
    return machine.glances(Area(column, row, 1, 1))[column, row]


@runtime_checkable
class HasQueueFill(Protocol):
    """A fabric that shows how full its elements' queues are."""

    def queue_fill(self, area: Area) -> np.ndarray:
        """Return how full the fullest queue of every element is now, (rows, columns) uint8; FULL is full."""
        ...


ROUTE_DTYPE = np.dtype(
    [
        ("column", "<i4"),
        ("row", "<i4"),
        ("inputs", "u1"),
        ("outputs", "u1"),
        ("position", "i1"),
        ("positions", "u1"),
        ("closed", "?"),
    ]
)
"""A router's setting for a color.

inputs, outputs  bit p: the router takes words from, or sends them to, port p in its current switch position
position         current switch position, -1 for a color without a switch; `positions` is their number
closed           the color is stopped here (teardown) until the program opens it again
"""

WORD_DTYPE = np.dtype(
    [
        ("id", "<i8"),
        ("color", "<i2"),
        ("control", "?"),
        ("waits", "?"),
        ("data", "<u4"),
        ("column", "<i4"),
        ("row", "<i4"),
        ("port", "u1"),
        ("start", "<i8"),
        ("arrival", "<i8"),
        ("source_column", "<i4"),
        ("source_row", "<i4"),
    ]
)
"""A word in flight now. Copies made by a multicast have the same id.

color           -1 where the network has no colors
waits           held back: it lies in the buffer of its router until it can leave by `port`
column, row     the router whose output `port` it uses (INJECT: the element whose processor sent it)
start, arrival  cycles between which it travels; position = (cycle - start) / (arrival - start).
                For a word that waits: the cycle since which it waits, and -1
source_*        the element whose processor sent it
"""


@dataclass(frozen=True, slots=True)
class Hop:
    """One step on the way of a word.

    cycle        cycle in which the word was sent, left a router, or was taken
    column, row  place; port is the output that it left by (RAMP for the last one: to the processor)
    kind         "sent" by a processor, "hop" to the next router, "taken" by a processor, "dropped"
                 by a filter or a router without a way on
    waited       cycles it lay in the buffer before it left
    instruction  listing index of the instruction that sent or took it, -1 if unknown
    source       place in the program text ("pe.csl:42 send_row"), "" if unknown
    """

    cycle: int
    column: int
    row: int
    port: int
    kind: str
    waited: int = 0
    instruction: int = -1
    source: str = ""


@dataclass(frozen=True, slots=True)
class WordPath:
    """The way of one word so far, over all copies of a multicast; `hops` are sorted by cycle.
    `is_under_way`: more will follow."""

    id: int
    color: int
    control: bool
    data: int
    hops: tuple[Hop, ...]
    is_under_way: bool = False


@runtime_checkable
class HasRoutes(Protocol):
    """A fabric whose routers are set per color."""

    def routes(self, color: int, area: Area) -> np.ndarray:
        """Return the settings of an area's routers that have one for a color now,
        as rows of `ROUTE_DTYPE`."""
        ...


@runtime_checkable
class HasWords(Protocol):
    """A fabric that knows the words in flight."""

    def words(self, area: Area) -> np.ndarray:
        """Return the words on the links and in the routers of an area now, as rows of `WORD_DTYPE`."""
        ...


@runtime_checkable
class HasWordPaths(Protocol):
    """A fabric that remembers the ways of its words."""

    def word_path(self, word: int) -> WordPath | None:
        """Return the way of a word up to now, or None if it is not known, or no longer."""
        ...

    def is_sent(self, word: int) -> bool:
        """Whether a word has been sent up to now."""
        ...

    def words_of_element(self, column: int, row: int) -> Sequence[int]:
        """Return the ids of the words in the router and the queues of an element now."""
        ...
