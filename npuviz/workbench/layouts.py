"""Named arrangements of panels, as data; the window turns them into docks."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """Panels that share one area as tabs, the first in front; `weight` is the area's share of the row's
    width."""

    panels: tuple[str, ...]
    weight: int


@dataclass(frozen=True, slots=True)
class Row:
    """Cells from left to right; `weight` is its share of the window's height."""

    cells: tuple[Cell, ...]
    weight: int


@dataclass(frozen=True, slots=True)
class Layout:
    """An arrangement: at most two rows. `features` are features a machine must have for it to be offered."""

    name: str
    title: str
    shortcut: str
    rows: tuple[Row, ...]
    features: tuple[str, ...] = ()

    def restricted_to(self, available: Collection[str]) -> "Layout":
        """Return a copy with the available panels only; empty cells and rows are dropped."""
        rows: list[Row] = []
        for row in self.rows:
            cells = [
                Cell(kept, cell.weight)
                for cell in row.cells
                if (kept := tuple(panel for panel in cell.panels if panel in available))
            ]
            if cells:
                rows.append(Row(tuple(cells), row.weight))
        return Layout(self.name, self.title, self.shortcut, tuple(rows), self.features)


LAYOUTS: tuple[Layout, ...] = (
    Layout("stepping", "Stepping", "Ctrl+Alt+1", (
        Row((
            Cell(("source", "program"), 26), Cell(("timeline", "fabric"), 50), Cell(("inspector",), 24),
        ), 55),
        Row((
            Cell(("graph", "breakpoints", "console", "log", "hazards"), 28),
            Cell(("queues", "semaphores", "floorplan", "search"), 34),
            Cell(("memory", "provenance", "accuracy", "costs", "compare"), 38),
        ), 45),
    )),
    Layout("profiling", "Profiling", "Ctrl+Alt+2", (
        Row((Cell(("timeline", "fabric"), 78), Cell(("inspector",), 22)), 66),
        Row((
            Cell(("costs", "causes", "compare", "search"), 48),
            Cell(("counters", "queues", "semaphores"), 27),
            Cell(("graph", "floorplan", "console", "log", "hazards"), 25),
        ), 34),
    )),
    Layout("memory", "Memory", "Ctrl+Alt+3", (
        Row((Cell(("program",), 22), Cell(("memory",), 78)), 66),
        Row((
            Cell(("timeline", "provenance", "accuracy", "costs", "search", "console"), 69),
            Cell(("inspector", "queues", "semaphores"), 31),
        ), 34),
    )),
    Layout("fabric", "Fabric", "Ctrl+Alt+4", (
        Row((Cell(("source", "program"), 27), Cell(("fabric",), 51), Cell(("inspector",), 22)), 70),
        Row((
            Cell(("timeline", "costs", "compare"), 68),
            Cell(("breakpoints", "hazards", "queues", "search", "log", "console"), 32),
        ), 30),
    ), ("routed fabric",)),
    Layout("sweep", "Sweep", "Ctrl+Alt+5", (Row((Cell(("sweep",), 100),), 100),), ("sweep results",)),
)  # fmt: skip

DEFAULT_LAYOUT = "stepping"


def layout_named(name: str) -> Layout | None:
    """Return the layout of this name, or None."""
    return next((layout for layout in LAYOUTS if layout.name == name), None)


def layout_for(features: Collection[str], *, is_recorded: bool = False) -> Layout:
    """Return the layout to show until the user chooses one; a choice is remembered per such default layout.

    features     of the machine; a layout that needs features wins if the machine has them
    is_recorded  there is nothing to step: a recorded trace, or a schedule that is only estimated
    """
    made_for = (one for one in LAYOUTS if one.features and all(name in features for name in one.features))
    usual = "profiling" if is_recorded else DEFAULT_LAYOUT
    return next(made_for, next(one for one in LAYOUTS if one.name == usual))
