"""Read from a machine that is not running what the visible part of its fabric shows at one cycle."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from npuviz.sim.fabric import (
    INJECT,
    PORT_STEPS,
    RAMP,
    Area,
    Glance,
    HasElements,
    HasFabric,
    HasQueueFill,
    HasRoutes,
    HasWordPaths,
    HasWords,
    WordPath,
)

Shade = Literal["state", "load", "queue"]
MAX_GLANCES = 600
NO_COLOR = -2
"""Value of `color` for: draw no routes."""


@dataclass(frozen=True, slots=True)
class FabricWants:
    """What the view needs from a machine.

    shade     the quantity that colours the elements
    links     whether the loads of the links are drawn
    words     whether words in flight are drawn
    color     the color whose routes are drawn, NO_COLOR for none
    glances   whether there is room for texts in the elements
    word      the word whose path is drawn, None for none
    """

    shade: Shade = "state"
    links: bool = True
    words: bool = True
    color: int = NO_COLOR
    glances: bool = False
    word: int | None = None


@dataclass(frozen=True, slots=True)
class FabricFrame:
    """What a machine answered; None for what was not wanted or the machine does not offer.

    states, fills  (rows, columns) uint8 of the area; loads (rows, columns, NUM_PORTS) uint8
    words, routes  rows of WORD_DTYPE and ROUTE_DTYPE; color is that of the routes
    """

    area: Area
    cycle: int
    states: np.ndarray
    loads: np.ndarray | None = None
    fills: np.ndarray | None = None
    words: np.ndarray | None = None
    routes: np.ndarray | None = None
    color: int = NO_COLOR
    path: WordPath | None = None
    glances: Mapping[tuple[int, int], Glance] = field(default_factory=dict[tuple[int, int], Glance])


def take_frame(machine: HasFabric, area: Area, wants: FabricWants, cycle: int) -> FabricFrame:
    """Ask a machine, which must not be running, for what is wanted."""
    fills = words = routes = path = None
    if wants.shade == "queue" and isinstance(machine, HasQueueFill):
        fills = machine.queue_fill(area)
    loads = machine.link_loads(area) if wants.links or wants.shade == "load" else None
    if isinstance(machine, HasWords):
        words = machine.words(area) if wants.words else None
    if isinstance(machine, HasWordPaths):
        path = machine.word_path(wants.word) if wants.word is not None else None
    if wants.color != NO_COLOR and isinstance(machine, HasRoutes):
        routes = machine.routes(wants.color, area)
    glances: Mapping[tuple[int, int], Glance] = {}
    if wants.glances and isinstance(machine, HasElements) and area.columns * area.rows <= MAX_GLANCES:
        glances = machine.glances(area)
    states = machine.element_states(area)
    return FabricFrame(area, cycle, states, loads, fills, words, routes, wants.color, path, glances)


_STEPS = np.array([*PORT_STEPS, (0, 0)], np.float64)
CELL_HALF = 0.34
"""Half the side of an element's square, as a share of the distance between two elements."""
LANE = 0.07
"""Distance of a lane from the middle of an element, as a share of the distance between two elements."""
RAMP_WAY = 0.22


def word_places(words: np.ndarray, cycle: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (columns, rows) at which words are drawn; the middle of element (c, r) is (c + 0.5, r + 0.5).

    A word on a link is between the two squares in the lane of its direction, a waiting one at the edge of its
    element's square, one on a ramp inside. All words that wait for one output have the same place.
    """
    port = words["port"].astype(np.int64)
    step = _STEPS[np.minimum(port, INJECT)]
    span = np.maximum(words["arrival"] - words["start"], 1)
    part = np.clip((cycle - words["start"] + 0.5) / span, 0.0, 1.0)
    waits = words["waits"]
    # From the edge of one square to that of the next.
    along = np.where(waits, CELL_HALF - 0.07, CELL_HALF + part * (1 - 2 * CELL_HALF))
    x = step[:, 0] * along - step[:, 1] * LANE
    y = step[:, 1] * along + step[:, 0] * LANE
    up, down = port == INJECT, port == RAMP
    part = np.where(waits, 0.0, part)
    x = np.where(up, -LANE, np.where(down, LANE, x))
    y = np.where(up, (1 - part) * RAMP_WAY, np.where(down, part * RAMP_WAY, y))
    return words["column"] + 0.5 + x, words["row"] + 0.5 + y


def waiting_together(words: np.ndarray) -> np.ndarray:
    """Count the words that wait for the same output: (n,) int64, the count for the first of them.

    0 for those that wait behind it, 1 for words that do not wait.
    """
    counts = np.ones(len(words), np.int64)
    waiting = np.flatnonzero(words["waits"])
    if len(waiting) < 2:
        return counts
    held = words[waiting]
    order = np.lexsort((held["start"], held["port"], held["column"], held["row"]))
    ordered = held[order]
    is_first = np.ones(len(ordered), bool)
    is_first[1:] = False
    for name in ("row", "column", "port"):
        is_first[1:] |= ordered[name][1:] != ordered[name][:-1]
    first = np.flatnonzero(is_first)
    found = np.zeros(len(ordered), np.int64)
    found[first] = np.diff(np.append(first, len(ordered)))
    counts[waiting[order]] = found
    return counts
