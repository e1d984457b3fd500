"""The contract of a fabric: processing elements on a grid whose routers pass small words to each other.

A machine fulfils `HasFabric`, and of the other protocols here as many as fit: a network of packets has
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
"""Ports of a router. As an output RAMP leads to the element's own processor, as an input it comes from it."""
NUM_PORTS = 5
PORT_NAMES = ("RAMP", "NORTH", "EAST", "SOUTH", "WEST")
PORT_STEPS = ((0, 0), (0, -1), (1, 0), (0, 1), (-1, 0))
"""Port -> (columns, rows) to the router behind it."""
INJECT = 5
"""In `WORD_DTYPE.port`: on the way from the processor into its own router."""
FULL = 255
"""Shares and fill levels are bytes: 0 is nothing, 255 all."""


class Area(NamedTuple):
    """A rectangle of the grid: elements with column <= c < column + columns, and rows alike."""

    column: int
    row: int
    columns: int
    rows: int


@dataclass(frozen=True, slots=True)
class ElementState:
    """A state an element can be in: a word for people, and the role that colours it.

    role  of the theme: "compute", "idle", "control", "wait-empty" (for data), "wait-queue" (held back
          from ahead), "hazard" (fault), "finished", "off", ...
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
    """What does not change during a run.

    columns, rows   size of the grid
    program         the part that runs the program, in grid places; the rest serves the host
    states          legend of `element_states`: a code is an index
    colors          colors in use, by id; () where the network has none
    load_cycles     `link_loads` tells of this many cycles up to now; 0: of all since the start
    element, word   what people call a grid place ("PE", "router") and what travels (a "flit")
    hop_cycles      cycles a word needs to the next router at best, for the legend; 0 unknown
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
        """Name of a place: relative to the program, so that its corner is (0, 0)."""
        return f"{self.element}({column - self.program.column},{row - self.program.row})"


class Level(NamedTuple):
    """A queue of an element: entries in it and entries that fit (0: no limit)."""

    name: str
    entries: int
    capacity: int
    color: int = -1


class Glance(NamedTuple):
    """What fits into the drawing of one element.

    task    what it runs now ("recv_task"), "" if nothing
    detail  why it waits, or what it does, in a few words
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
        """Size, legend and words. Cheap; the same object all the time."""
        ...

    def element_states(self, area: Area) -> np.ndarray:
        """(rows, columns) uint8: index into `FabricShape.states` of every element now."""
        ...

    def link_loads(self, area: Area) -> np.ndarray:
        """(rows, columns, NUM_PORTS) uint8: how much of the last `load_cycles` each output was busy."""
        ...


@runtime_checkable
class HasElements(Protocol):
    """A fabric whose elements can be looked into one by one."""

    def glances(self, area: Area) -> Mapping[tuple[int, int], Glance]:
        """What the elements of an area do now, in a few words, by their (column, row)."""
        ...

    def element_details(self, column: int, row: int) -> Sequence[DetailTable]:
        """Everything about one element now: tasks, queues, registers, switches, variables.

        By habit the columns are Name, Value, Type; variables come with their own table.
        """
        ...

    def units_of_element(self, column: int, row: int) -> tuple[int, ...]:
        """Units of the description that belong to an element; () if it has none (it is not watched)."""
        ...

    def element_of_unit(self, unit: int) -> tuple[int, int] | None:
        """(column, row) of the element a unit belongs to, or None."""
        ...


def glance_at(machine: HasElements, column: int, row: int) -> Glance:
    """What one element does now."""
    return machine.glances(Area(column, row, 1, 1))[column, row]


@runtime_checkable
class HasQueueFill(Protocol):
    """A fabric whose elements have queues worth a colour."""

    def queue_fill(self, area: Area) -> np.ndarray:
        """(rows, columns) uint8: fill of the fullest queue of every element now; FULL is full."""
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

inputs, outputs  bit p set: port p is accepted, or sent to, in the position in force
position         switch position in force, -1 for a color without a switch; `positions` are how many it has
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
waits           held back: it lies in the buffer of its router and wants to leave by `port`
column, row     the router whose output `port` it uses (INJECT: the element whose processor sent it)
start, arrival  cycles between which it travels; position = (cycle - start) / (arrival - start).
                For a word that waits: since when, and -1
source_*        the element whose processor sent it
"""


@dataclass(frozen=True, slots=True)
class Hop:
    """A stage of a word's way.

    cycle        when it began: sent, left a router, or was taken
    column, row  where; port is the output it left by (RAMP for the last: to the processor)
    kind         "sent" by a processor, "hop" to the next router, "taken" by a processor, "dropped"
                 by a filter or a router without a way on
    waited       cycles it lay in the buffer before it left
    instruction  index in the listing of what sent or took it, -1 if unknown
    source       "pe.csl:42 send_row" for people, "" if unknown
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
    """The way of one word so far, across multicast; `hops` by cycle. `is_under_way`: more will come."""

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
        """Settings of the routers that have one for a color now, as rows of `ROUTE_DTYPE`."""
        ...


@runtime_checkable
class HasWords(Protocol):
    """A fabric that knows the words in flight."""

    def words(self, area: Area) -> np.ndarray:
        """Words on the links and in the routers of an area now, as rows of `WORD_DTYPE`."""
        ...


@runtime_checkable
class HasWordPaths(Protocol):
    """A fabric that knows where a word came along."""

    def word_path(self, word: int) -> WordPath | None:
        """The way of a word up to now, or None for one that is not known (any more)."""
        ...

    def is_sent(self, word: int) -> bool:
        """Whether a word has been sent up to now."""
        ...

    def words_of_element(self, column: int, row: int) -> Sequence[int]:
        """Ids of the words in the router and the queues of an element now."""
        ...
