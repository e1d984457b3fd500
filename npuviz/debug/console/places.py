"""Parse a place or a rectangle of places of a grid, as text commands write them: `3,1` or `0,0..7,7`."""

import re

from npuviz.base.errors import UsageError
from npuviz.base.names import echo
from npuviz.debug.console.arguments import number_of, unit_of
from npuviz.debug.session import Session
from npuviz.sim.fabric import Area, FabricShape, HasElements


def fabric_of(session: Session) -> FabricShape:
    """Return the grid of a machine. Raises UsageError for a machine without one."""
    fabric = session.fabric
    if fabric is None:
        raise UsageError("this machine has no grid of processing elements")
    return fabric


def is_place(text: str) -> bool:
    """Whether a word looks like a place or a rectangle."""
    return text[:1].isdigit() and "," in text


def area_of(session: Session, text: str) -> Area:
    """Return the grid places of `C,R` or of `C,R..C,R` (`:` for `..`), corners included,
    counted from the program's corner.

    The name of an element, or of a unit of it, stands for its place. Raises UsageError outside the program.
    """
    fabric = fabric_of(session)
    text = "".join(text.split())
    named = re.fullmatch(rf"{re.escape(fabric.element)}\((\d+,\d+)\)(?:\.\w+)?", text)
    first, dots, last = (named[1] if named else text).replace(":", "..").partition("..")
    left, top = _place(fabric, first)
    right, bottom = _place(fabric, last) if dots else (left, top)
    columns, rows = abs(right - left) + 1, abs(bottom - top) + 1
    program = fabric.program
    return Area(program.column + min(left, right), program.row + min(top, bottom), columns, rows)


def unit_at(session: Session, text: str) -> int:
    """Return the id of the unit of a name, or of the first unit of the element at `C,R`.
    Raises UsageError."""
    if not is_place(text):
        return unit_of(session, text)
    area, machine = area_of(session, text), session.machine
    units = machine.units_of_element(area.column, area.row) if isinstance(machine, HasElements) else ()
    if not units:
        label = fabric_of(session).label(area.column, area.row)
        raise UsageError(f"{label} has no units of its own: choose the elements that are recorded")
    return units[0]


def labels_in(session: Session, area: Area) -> set[str]:
    """Return the names of the elements of an area."""
    fabric = fabric_of(session)
    return {
        fabric.label(area.column + column, area.row + row)
        for column in range(area.columns)
        for row in range(area.rows)
    }


def _place(fabric: FabricShape, text: str) -> tuple[int, int]:
    column_text, comma, row_text = text.partition(",")
    if not comma:
        raise UsageError(
            f"{echo(text)!r}: expected column and row, such as 0,0, or corners, such as 0,0..3,3"
        )
    column, row = number_of(column_text, "a column"), number_of(row_text, "a row")
    area = fabric.program
    if column >= area.columns or row >= area.rows:
        raise UsageError(f"{echo(text)}: the program has {area.columns} x {area.rows} {fabric.element}s")
    return column, row
