"""Choose the unit or element that a verb such as a step acts on."""

from npuviz.sim.fabric import HasElements, HasFabric
from npuviz.sim.frames import HasFrames
from npuviz.sim.machine import Machine
from npuviz.ui.bridge.session_model import SessionModel
from npuviz.workbench.selection import Selection

MAX_LOOKED_AT = 256
"""Most elements that are searched for one that runs something, when none is selected."""


def focused_unit(model: SessionModel, selection: Selection) -> int | None:
    """Return the unit of the selection, else the first that has a next instruction; None if there is none.

    None also while the machine runs.
    """
    session, description, program = model.session, model.description, model.program
    if session is None or description is None or program is None or model.is_running:
        return None
    holding = session.machine.next_instructions()
    candidates = [selection.unit]
    if selection.instruction is not None and selection.instruction < len(program.listing):
        candidates.append(program.listing.describe(selection.instruction).unit)
    if selection.track is not None:
        candidates += [track.unit for track in description.tracks if track.id == selection.track]
    for unit in candidates:
        if unit is not None and (unit in holding or program.listing.ranges_of_unit(unit)):
            return unit
    return min(holding, default=None)


def focused_element(machine: Machine, selection: Selection, last: int | None = None) -> int | None:
    """Return the number of the element that a verb acts on: the selected, the last, or the first busy one.

    None on a machine without a fabric. If nothing runs, the corner of the program's area.
    """
    if not isinstance(machine, HasFabric):
        return None
    shape = machine.fabric
    place = selection.element
    if place is None and selection.unit is not None and isinstance(machine, HasElements):
        place = machine.element_of_unit(selection.unit)
    if place is not None and 0 <= place[0] < shape.columns and 0 <= place[1] < shape.rows:
        return place[1] * shape.columns + place[0]
    if last is not None and last < shape.columns * shape.rows:
        return last
    area = shape.program
    corner = area.row * shape.columns + area.column
    if isinstance(machine, HasFrames):
        for number in range(min(area.columns * area.rows, MAX_LOOKED_AT)):
            row, column = divmod(number, max(area.columns, 1))
            element = corner + row * shape.columns + column
            if machine.frames(element):
                return element
    return corner
