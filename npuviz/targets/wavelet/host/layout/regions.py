"""Describe code regions of a layout: their PEs, parameters, routes and ports; places and areas on the
grid."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from npuviz.base.errors import UsageError
from npuviz.targets.wavelet.host.layout.routes import (
    OPPOSITE,
    Color,
    Edge,
    EdgeRouting,
    Position,
    Route,
    RoutingPosition,
)

LARGEST_SIDE = 4096
Place = tuple[int, int]


@dataclass(frozen=True)
class IntVector:
    """A place (column, row), or a size."""

    x: int
    y: int


@dataclass(frozen=True)
class IntRectangle:
    """An area: its first place, and the place after its last (exclusive in both directions)."""

    upper_left: IntVector
    lower_right: IntVector


@dataclass(eq=False)
class Port:
    """An edge of a region over which wavelets of a color enter or leave; one path for each PE of the edge.

    places  PEs in the order of the edge, in coordinates of the region
    """

    region: "CodeRegion"
    color: Color
    edge: Edge
    is_input: bool
    size: int
    places: tuple[Place, ...]

    @property
    def out_side(self) -> Route:
        """The direction that leads out of the region."""
        return Route[self.edge.value]

    @property
    def in_side(self) -> Route:
        """The direction that leads into the region."""
        return OPPOSITE[self.out_side]


@dataclass(eq=False)
class Stream:
    """A port that the host sends to or receives from."""

    port: Port
    name: str
    is_input: bool


@dataclass(eq=False)
class CodeRegion:
    """A rectangle of PEs with one source file; its methods take coordinates inside the region."""

    file: Path
    name: str
    width: int
    height: int
    origin: Place | None = None
    params: dict[Place, dict[str, int | Color]] = field(default_factory=dict[Place, dict[str, int | Color]])
    routes: dict[Place, dict[Color, tuple[Position, ...]]] = field(
        default_factory=dict[Place, dict[Color, tuple[Position, ...]]]
    )
    symbols: list[tuple[str, np.ndarray, int, int]] = field(
        default_factory=list[tuple[str, np.ndarray, int, int]]
    )
    ports: list[Port] = field(default_factory=list[Port])

    # ---- parameters

    def set_param(self, place: IntVector, name: str | Color, value: int | Color | None = None) -> None:
        """Set a parameter of one PE: name and value, name and color, or a color under its own name."""
        self._set([self._inside(place)], name, value)

    def set_param_all(self, name: str | Color, value: int | Color | None = None) -> None:
        """Set a parameter of all PEs."""
        self._set(self._all(), name, value)

    def set_param_range(
        self, area: IntRectangle, name: str | Color, value: int | Color | None = None
    ) -> None:
        """Set a parameter of the PEs of an area."""
        self._set(self._within(area), name, value)

    def _set(self, places: Sequence[Place], name: str | Color, value: int | Color | None) -> None:
        given = name if isinstance(name, Color) and value is None else value
        key = name.name if isinstance(name, Color) else name
        if not isinstance(given, Color):
            if isinstance(given, bool | np.bool_) or not isinstance(given, int | np.integer):
                raise UsageError(f"{self.name}: parameter {key}: expected an integer or a color")
            given = int(given)
        for place in places:
            self.params.setdefault(place, {})[key] = given

    # ---- colors and routes

    def color(self, name: str, value: int | None = None) -> Color:
        """Return a new color of this region, distinct from other regions' colors of the same name."""
        return Color(name, value)

    def paint(self, place: IntVector, color: Color, routes: Sequence[RoutingPosition]) -> None:
        """Set the routes of a color on one PE: position 0 and the switch positions after it."""
        self._paint([self._inside(place)], color, [route.position for route in routes])

    def paint_all(
        self, color: Color, routes: Sequence[RoutingPosition], edge_routes: Sequence[EdgeRouting] = ()
    ) -> None:
        """Set the routes of a color on all PEs, with others along some edges."""
        self._paint(self._all(), color, [route.position for route in routes])
        for special in edge_routes:
            self._paint(self._edge(special.edge), color, special.positions)

    def paint_range(self, area: IntRectangle, color: Color, routes: Sequence[RoutingPosition]) -> None:
        """Set the routes of a color on the PEs of an area."""
        self._paint(self._within(area), color, [route.position for route in routes])

    def _paint(self, places: Sequence[Place], color: Color, positions: Sequence[Position]) -> None:
        if not 1 <= len(positions) <= 4:
            raise UsageError(f"{self.name}: color {color.name}: expected 1 to 4 routing positions")
        for place in places:
            self.routes.setdefault(place, {})[color] = tuple(positions)

    # ---- ports

    def create_input_port(
        self, color: Color, edge: Edge, routes: Sequence[RoutingPosition], size: int, prefix: str = ""
    ) -> Port:
        """Make a port through which wavelets enter over an edge; `routes` name outputs only."""
        return self._port(color, edge, routes, size, True)

    def create_output_port(
        self, color: Color, edge: Edge, routes: Sequence[RoutingPosition], size: int, prefix: str = ""
    ) -> Port:
        """Make a port through which wavelets leave over an edge; `routes` name inputs only."""
        return self._port(color, edge, routes, size, False)

    def _port(
        self, color: Color, edge: Edge, routes: Sequence[RoutingPosition], size: int, is_input: bool
    ) -> Port:
        side = Route[edge.value]
        positions: list[Position] = []
        for route in routes:
            given = route.position
            fixed = given.inputs if is_input else given.outputs
            if fixed:
                raise UsageError(
                    f"{self.name}: port of color {color.name}: its routes must not name "
                    f"{'inputs' if is_input else 'outputs'}"
                )
            positions.append(
                Position((side,), given.outputs) if is_input else Position(given.inputs, (side,))
            )
        places = self._edge(edge)
        self._paint(places, color, positions)
        port = Port(self, color, edge, is_input, size, tuple(places))
        self.ports.append(port)
        return port

    # ---- placement and data

    def place(self, x: int, y: int) -> None:
        """Set where the region's first PE lies in the layout."""
        if not (0 <= x < LARGEST_SIDE and 0 <= y < LARGEST_SIDE):
            raise UsageError(f"{self.name}: place ({x}, {y}) is outside the fabric")
        self.origin = (int(x), int(y))

    def set_symbol_all(self, name: str, data: np.ndarray, width: int, height: int) -> None:
        """Set initial values of a matrix [height][width] that is cut into equal blocks, one per PE."""
        if width % self.width or height % self.height or data.size != width * height:
            raise UsageError(
                f"{self.name}: {name}: {width} x {height} elements cannot be shared out to "
                f"{self.width} x {self.height} PEs"
            )
        self.symbols.append((name, np.ascontiguousarray(data).reshape(height, width), width, height))

    # ---- areas

    def _all(self) -> list[Place]:
        return [(x, y) for y in range(self.height) for x in range(self.width)]

    def _inside(self, place: IntVector) -> Place:
        if not (0 <= place.x < self.width and 0 <= place.y < self.height):
            raise UsageError(f"{self.name}: place ({place.x}, {place.y}) is outside the region")
        return place.x, place.y

    def _within(self, area: IntRectangle) -> list[Place]:
        last = self._inside(IntVector(area.lower_right.x - 1, area.lower_right.y - 1))
        first = self._inside(area.upper_left)
        return [(x, y) for y in range(first[1], last[1] + 1) for x in range(first[0], last[0] + 1)]

    def _edge(self, edge: Edge) -> list[Place]:
        if edge in (Edge.TOP, Edge.BOTTOM):
            row = 0 if edge is Edge.TOP else self.height - 1
            return [(x, row) for x in range(self.width)]
        column = 0 if edge is Edge.LEFT else self.width - 1
        return [(column, y) for y in range(self.height)]


@dataclass(frozen=True)
class Artifacts:
    """A compiled layout.

    origin  where (0, 0) of the layout lies in the rectangle
    ports   stream name -> (color, PE) at which the host sends or receives
    """

    folder: Path
    origin: Place = (0, 0)
    ports: Mapping[str, tuple[int, Place]] = field(default_factory=dict[str, tuple[int, Place]])
