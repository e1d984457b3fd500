"""Define colors, directions and routing positions of layouts that host programs build."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from npuviz.base.errors import UsageError


class Route(Enum):
    """A port of a router."""

    RAMP = "RAMP"
    NORTH = "NORTH"
    EAST = "EAST"
    SOUTH = "SOUTH"
    WEST = "WEST"


class Edge(Enum):
    """A side of a code region; its value is the direction that leads out of it."""

    TOP = "NORTH"
    RIGHT = "EAST"
    BOTTOM = "SOUTH"
    LEFT = "WEST"


STEPS = {
    Route.NORTH: (0, -1),
    Route.EAST: (1, 0),
    Route.SOUTH: (0, 1),
    Route.WEST: (-1, 0),
}
OPPOSITE = {
    Route.NORTH: Route.SOUTH,
    Route.SOUTH: Route.NORTH,
    Route.EAST: Route.WEST,
    Route.WEST: Route.EAST,
    Route.RAMP: Route.RAMP,
}


class Color:
    """A color by name; its number is chosen when the layout is compiled, unless it is given."""

    def __init__(self, name: str, value: int | None = None) -> None:
        """Name a color; value: 0 to 23, or None."""
        if value is not None and not 0 <= value < 24:
            raise UsageError(f"color {name[:60]}: expected a number 0 to 23, found {value}")
        self.name = name
        self.value = value


@dataclass(frozen=True)
class Position:
    """One routing position: where wavelets come from and where they go."""

    inputs: tuple[Route, ...] = ()
    outputs: tuple[Route, ...] = ()


class RoutingPosition:
    """One routing position, built step by step."""

    def __init__(self) -> None:
        self.position = Position()

    def set_input(self, routes: Sequence[Route]) -> "RoutingPosition":
        """Set where wavelets come from; return this object."""
        self.position = Position(tuple(routes), self.position.outputs)
        return self

    def set_output(self, routes: Sequence[Route]) -> "RoutingPosition":
        """Set where wavelets go; return this object."""
        self.position = Position(self.position.inputs, tuple(routes))
        return self


@dataclass(frozen=True)
class EdgeRouting:
    """Positions for the PEs of one side of a region."""

    edge: Edge
    positions: tuple[Position, ...]


def get_edge_routing(edge: Edge, routes: Sequence[RoutingPosition]) -> EdgeRouting:
    """Return positions for the PEs of one side, for `paint_all`."""
    return EdgeRouting(edge, tuple(route.position for route in routes))


class ColorGroups:
    """Groups of colors that must have the same number because they meet on a path."""

    def __init__(self) -> None:
        self._parent: dict[Color, Color] = {}

    def root(self, color: Color) -> Color:
        """Return the color that stands for a group."""
        path: list[Color] = []
        while (parent := self._parent.get(color, color)) is not color:
            path.append(color)
            color = parent
        for passed in path:
            self._parent[passed] = color
        return color

    def join(self, first: Color, second: Color) -> None:
        """Join two groups. Raises UsageError if both have numbers that differ."""
        a, b = self.root(first), self.root(second)
        if a is b:
            return
        if a.value is not None and b.value is not None and a.value != b.value:
            raise UsageError(
                f"colors {first.name} ({a.value}) and {second.name} ({b.value}) are connected, but differ"
            )
        if a.value is None:
            a, b = b, a
        self._parent[b] = a

    def numbers(self, uses: dict[Color, set[tuple[int, int]]], count: int) -> dict[Color, int]:
        """Return a number for every group, different wherever two are used on one PE. Raises UsageError.

        uses   root of a group -> PEs
        count  numbers that may be chosen: 0 to count - 1
        """
        found = {color: color.value for color in uses if color.value is not None}
        taken: dict[tuple[int, int], set[int]] = {}
        for color, number in found.items():
            for place in uses[color]:
                taken.setdefault(place, set()).add(number)
        for color in sorted(
            (color for color in uses if color not in found), key=lambda color: -len(uses[color])
        ):
            used = set[int]().union(*(taken.get(place, set()) for place in uses[color]))
            number = next((number for number in range(count) if number not in used), None)
            if number is None:
                raise UsageError(f"color {color.name}: all {count} colors are in use where it passes")
            found[color] = number
            for place in uses[color]:
                taken.setdefault(place, set()).add(number)
        return found
